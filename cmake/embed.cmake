# Writes OUT: a function osb::MODULE::embedded(name) that gives back the text of one of FILES, by its file name.
set(code "#include <string_view>\n\nnamespace osb::${MODULE} {\n\nstd::string_view embedded(std::string_view name) {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(APPEND code "  if (name == \"${name}\") return std::string_view(R\"osbfile(${text})osbfile\");\n")
endforeach()
string(APPEND code "  return {};\n}\n\n}  // namespace osb::${MODULE}\n")
file(WRITE "${OUT}" "${code}")
