// Policy templates and catalogues: files separated by a NUL byte, the first one a catalogue. A template that compiles
// is a policy that survives its JSON, and every rule has an origin; errors say something.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <boost/json/serialize.hpp>

#include "policy/templates/compile.h"
#include "policy/templates/suggest.h"

namespace {

using namespace osb::policy;

void check(const CompiledTemplate& compiled) {
  const Policy policy = compiled.policy();
  const auto again = parse_policy(osb::api::json::serialize(to_json(policy)));
  if (!again || *again != policy) std::abort();
  std::vector<Asked> asked;
  for (const CompiledRule& each : compiled.rules) {
    if (each.origin.template_name.empty() || each.origin.place.line == 0) std::abort();
    const auto told = explain(compiled, each.rule.text);
    if (told && told->because.empty()) std::abort();
    asked.push_back({each.rule.text});
  }
  (void)to_json(compiled, true);
  if (!parse_template(suggest(asked, {}).to_toml("s"), "s", "s")) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  TemplateSet set{.catalogue = {}};
  for (int number = 0; number < 8 && !input.empty(); ++number) {
    const std::string_view text = input.substr(0, input.find('\0'));
    input.remove_prefix(std::min(input.size(), text.size() + 1));
    if (number == 0) {
      auto catalogue = Catalogue::parse(text, "catalogue.toml", {});
      if (!catalogue && catalogue.error().message.empty()) std::abort();
      if (catalogue) set.catalogue = std::move(*catalogue);
    }
    auto one = parse_template(text, "t.toml", "t" + std::to_string(number));
    if (!one && one.error().message.empty()) std::abort();
    if (one) (void)set.add(std::move(*one));
  }
  for (const std::string_view name : set.names()) {
    const auto compiled = compile_template(set, name);
    if (!compiled && compiled.error().message.empty()) std::abort();
    if (compiled) check(*compiled);
  }
  return 0;
}
