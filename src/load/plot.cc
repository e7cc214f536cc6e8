#include "load/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace headrace::load {
namespace {

constexpr double kWidth = 520, kHeight = 260, kLeft = 58, kRight = 14, kTop = 30, kBottom = 44;

// The step of about five ticks from 0 to `max`: 1, 2 or 5 times a power of ten.
double tick_step(double max) {
  const double raw = max / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

std::string number_text(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  return size >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string plot_svg(const Plot& plot) {
  double x_max = 0, y_max = plot.y_max;
  for (const Line& line : plot.lines) {
    for (const auto& [x, y] : line.points) {
      x_max = std::max(x_max, x);
      if (plot.y_max == 0) y_max = std::max(y_max, y);
    }
  }
  if (!(x_max > 0) || !std::isfinite(x_max)) x_max = 1;
  if (!(y_max > 0) || !std::isfinite(y_max)) y_max = 1;
  if (plot.y_max == 0) y_max *= 1.05;
  const auto x_of = [&](double x) { return kLeft + std::min(x / x_max, 1.0) * (kWidth - kLeft - kRight); };
  const auto y_of = [&](double y) { return kHeight - kBottom - std::min(y / y_max, 1.0) * (kHeight - kTop - kBottom); };

  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<text class=\"title\" x=\"{}\" y=\"18\">{}</text>\n", kWidth,
      kHeight, escape_html(plot.title), kLeft, escape_html(plot.title));
  const double x_step = tick_step(x_max), y_step = tick_step(y_max);
  for (int i = 0; i * y_step <= y_max * 1.0001; ++i) {
    const double y = y_of(i * y_step);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text class=\"y\" x=\"{}\" "
        "y=\"{:.1f}\">{}</text>\n",
        kLeft, kWidth - kRight, y, y, kLeft - 6, y + 4, number_text(i * y_step));
  }
  for (int i = 0; i * x_step <= x_max * 1.0001; ++i) {
    out += fmt::format("<text class=\"x\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x_of(i * x_step), kHeight - kBottom + 16,
                       number_text(i * x_step));
  }
  out += fmt::format("<text class=\"x\" x=\"{}\" y=\"{}\">{}</text>\n", (kLeft + kWidth - kRight) / 2, kHeight - 8,
                     escape_html(plot.x_label));
  out += fmt::format("<text class=\"x\" transform=\"translate(12 {}) rotate(-90)\">{}</text>\n", (kTop + kHeight - kBottom) / 2,
                     escape_html(plot.y_label));
  double legend = kWidth - kRight;
  for (size_t i = plot.lines.size(); i-- > 0;) {
    const Line& line = plot.lines[i];
    std::string path;
    for (const auto& [x, y] : line.points) path += fmt::format("{:.1f},{:.1f} ", x_of(x), y_of(y));
    out += fmt::format("<polyline class=\"line c{}\" points=\"{}\"/>\n", i, path);
    if (line.dots) {
      for (const auto& [x, y] : line.points) {
        out += fmt::format(
            "<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}: {} at {}</title></circle>\n", i,
            x_of(x), y_of(y), escape_html(line.name), number_text(y), number_text(x));
      }
    }
    if (plot.lines.size() > 1) {
      out += fmt::format("<text class=\"legend t{}\" x=\"{}\" y=\"18\">{}</text>\n", i, legend, escape_html(line.name));
      legend -= 7.0 * static_cast<double>(line.name.size()) + 14;
    }
  }
  return out + "</svg>\n";
}

}  // namespace headrace::load
