#pragma once
// The files of web/, compiled into the binary (cmake/EmbedWeb.cmake writes the other half).

#include <span>
#include <string_view>

namespace headrace::server {

struct WebFile {
  std::string_view path;  // "/" for index.html, "/page.js"
  std::string_view content_type;
  std::string_view bytes;
};

std::span<const WebFile> web_files();

}  // namespace headrace::server
