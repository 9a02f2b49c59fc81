# Writes OUT, the C++ source that holds FILES (separated by ',') as bytes: the table of server/web_files.hpp. Run by the
# build of the room server.
string(REPLACE "," ";" files "${FILES}")
set(data "")
set(rows "")
set(index 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" hex HEX)
  string(SHA256 sum "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND data "constexpr unsigned char kBytes${index}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"/${name}\", \"\\\"${sum}\\\"\", {reinterpret_cast<const char*>(kBytes${index}), sizeof kBytes${index} - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
if(index EQUAL 0)
  set(table "  return {};\n")
else()
  set(table "  static const EmbeddedFile files[] = {\n${rows}  };\n  return files;\n")
endif()
file(WRITE "${OUT}" "// Made by embed_files.cmake.
#include \"server/web_files.hpp\"
namespace minfer::server {
namespace {
${data}}  // namespace
std::span<const EmbeddedFile> embedded_files() {
${table}}
}  // namespace minfer::server
")
