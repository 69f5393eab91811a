#pragma once

// toml++ as every file here includes it: its functions are inline, so all of them must see the same settings. Version
// 3.3 of Debian 12 needs two repairs, because files may come from strangers:
// - It asserts on some wrong files, such as "[{a]", where its code goes on to report an error.
// - It promises the compiler that letters such as U+00E4 do not occur where it asks whether they are blanks.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(expr) static_assert(true)

#include <toml++/impl/forward_declarations.h>
// clang-format off
#pragma push_macro("TOML_UNREACHABLE")
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE return false
#include <toml++/impl/unicode.h>
#pragma pop_macro("TOML_UNREACHABLE")
// clang-format on
#include <toml++/toml.h>
