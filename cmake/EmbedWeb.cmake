# cmake -DWEB=dir -DOUT=file -P EmbedWeb.cmake: writes the C++ file that holds web/'s files as raw strings.
set(rows "")
foreach(pair "/|index.html|text/html" "/page.css|page.css|text/css" "/page.js|page.js|text/javascript"
             "/favicon.svg|favicon.svg|image/svg+xml")
  string(REPLACE "|" ";" parts "${pair}")
  list(GET parts 0 path)
  list(GET parts 1 file)
  list(GET parts 2 type)
  file(READ ${WEB}/${file} bytes)
  string(APPEND rows "    {\"${path}\", \"${type}; charset=utf-8\", R\"hr_web(${bytes})hr_web\"},\n")
endforeach()
file(WRITE ${OUT} "// Written by cmake/EmbedWeb.cmake from web/.
#include \"server/web_files.h\"

namespace headrace::server {

std::span<const WebFile> web_files() {
  static constexpr WebFile kFiles[] = {
${rows}  };
  return kFiles;
}

}  // namespace headrace::server
")
