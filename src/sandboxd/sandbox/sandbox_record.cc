#include "sandboxd/sandbox/sandbox_record.h"

#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::sandboxd {
namespace {

namespace json = boost::json;

constexpr const char* kName = "/record.json";

json::array strings(const std::vector<std::string>& list) { return json::array(list.begin(), list.end()); }

std::string encode(const SandboxRecord& record) {
  json::array layers;
  for (const image::Digest& layer : record.layers) layers.push_back(json::string(layer.to_string()));
  json::object out{{"spec", api::native::encode(record.spec)},
                   {"status", api::native::encode(record.status)},
                   {"layers", std::move(layers)},
                   {"snapshots", strings(record.snapshots)},
                   {"image_config", record.image_config},
                   {"volumes", strings(record.volumes)},
                   {"volumes_to_delete", strings(record.volumes_to_delete)},
                   {"removing", record.removing}};
  if (record.slot) out["slot"] = *record.slot;
  if (record.network_policy) {
    const PolicyRecord& policy = *record.network_policy;
    json::object about{{"policy", policy::to_json(policy.policy)},
                       {"revision", policy.revision},
                       {"audit", policy.audit},
                       {"intercept", policy.intercept}};
    if (policy.vault) about["vault"] = *policy.vault;
    out["network_policy"] = std::move(about);
  }
  if (record.process) {
    out["process"] = json::object{{"boot_id", record.process->boot_id},
                                  {"pid", record.process->pid},
                                  {"start_ticks", record.process->start_ticks}};
  }
  return json::serialize(out);
}

// Records of versions without policies have none.
Result<std::optional<PolicyRecord>> read_policy(api::ObjectReader& r) {
  std::optional<PolicyRecord> out;
  Result<policy::Policy> parsed = policy::Policy();
  r.object("network_policy", [&](api::ObjectReader& p) {
    out.emplace();
    out->revision = static_cast<std::uint64_t>(p.required_int64("revision", 1));
    out->audit = p.optional_bool("audit").value_or(false);
    out->intercept = p.optional_bool("intercept").value_or(false);
    if (const json::value* vault = p.find("vault"); vault != nullptr && vault->is_object())
      out->vault = vault->get_object();
    if (const json::value* text = p.find("policy")) {
      parsed = policy::parse_policy(json::serialize(*text));
    } else {
      p.reject("policy", "required");
    }
  });
  if (!parsed) return with_context("/network_policy", parsed.error());
  if (out) out->policy = std::move(*parsed);
  return out;
}

Result<SandboxRecord> decode(std::string_view text) {
  auto value = api::parse_json(text);
  if (!value) return Failure(value.error());
  api::ObjectReader r(*value, {});
  SandboxRecord out;
  const json::value* spec = r.find("spec");
  const json::value* status = r.find("status");
  if (spec == nullptr || status == nullptr) return fail(Code::InvalidRequest, "spec and status are needed");
  auto decoded_spec = api::native::decode_create_sandbox(*spec);
  if (!decoded_spec) return with_context("/spec", decoded_spec.error());
  auto decoded_status = api::native::decode_sandbox(*status);
  if (!decoded_status) return with_context("/status", decoded_status.error());
  out.spec = std::move(*decoded_spec);
  out.status = std::move(*decoded_status);
  for (const std::string& layer : r.string_list("layers").value_or(std::vector<std::string>{})) {
    auto digest = image::Digest::parse(layer);
    if (!digest) return with_context("/layers", digest.error());
    out.layers.push_back(*digest);
  }
  out.snapshots = r.string_list("snapshots").value_or(std::vector<std::string>{});
  out.image_config = r.optional_string("image_config").value_or("");
  out.volumes = r.string_list("volumes").value_or(std::vector<std::string>{});
  out.volumes_to_delete = r.string_list("volumes_to_delete").value_or(std::vector<std::string>{});
  out.removing = r.optional_bool("removing").value_or(false);
  if (const auto slot = r.optional_int64("slot", 0, 1 << 30)) out.slot = static_cast<unsigned>(*slot);
  r.object("process", [&](api::ObjectReader& p) {
    out.process =
        kernel::ProcessIdentity{p.required_string("boot_id"), static_cast<pid_t>(p.required_int64("pid", 1, 1 << 30)),
                                static_cast<std::uint64_t>(p.required_int64("start_ticks", 0))};
  });
  auto policy = read_policy(r);
  if (!policy) return Failure(policy.error());
  out.network_policy = std::move(*policy);
  if (auto done = r.finish(); !done) return Failure(done.error());
  return out;
}

}  // namespace

Result<void> save_record(const std::string& directory, const SandboxRecord& record) {
  const std::string path = directory + kName;
  const std::string next = path + ".next";
  auto file = sys::open_at(AT_FDCWD, next, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!file) return Failure(file.error());
  if (auto wrote = sys::write_all(file->get(), encode(record), next); !wrote) return wrote;
  if (::rename(next.c_str(), path.c_str()) < 0) return sys::from_errno("rename " + next, errno);
  return {};
}

Result<SandboxRecord> load_record(const std::string& directory) {
  const std::string path = directory + kName;
  auto text = sys::read_text(path);
  if (!text) return Failure(text.error());
  // A power cut can leave the first version without its contents: as good as none.
  if (text->empty()) return fail(Code::NotFound, path + ": empty");
  auto record = decode(*text);
  if (!record) return with_context(path, record.error());
  return record;
}

}  // namespace osb::sandboxd
