#pragma once
// A line plot as inline SVG. Colours and fonts are classes that the page's style gives.

#include <string>
#include <utility>
#include <vector>

namespace headrace::load {

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by rising x
  bool dots = false;                              // each point is drawn, with its figures when it is pointed at
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<Line> lines;  // at most four
  double y_max = 0;         // 0: from the points
};

std::string plot_svg(const Plot& plot);
// `text` as HTML shows it.
std::string escape_html(std::string_view text);

}  // namespace headrace::load
