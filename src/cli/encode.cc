#include "cli/encode.h"

#include "api/json.h"

namespace osb::cli {
namespace {

template <typename List>
json::value list_or_null(const List& list) {
  if (list.empty()) return nullptr;
  json::array out;
  for (const auto& item : list) out.emplace_back(item);
  return out;
}

// A field of the answer that the SDK's type does not have.
json::value raw_field(const std::string& text, std::string_view name) {
  const auto parsed = api::parse_json(text);
  if (!parsed || !parsed->is_object()) return nullptr;
  const json::value* found = parsed->get_object().if_contains(name);
  return found != nullptr ? *found : json::value(nullptr);
}

}  // namespace

json::value text_or_null(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }

json::value time_or_null(const std::optional<opensandbox::Timestamp>& time) {
  return time ? json::value(opensandbox::format_timestamp(*time)) : json::value(nullptr);
}

json::object encode(const opensandbox::StringMap& map) {
  json::object out;
  for (const auto& [key, value] : map) out[key] = value;
  return out;
}

json::object encode(const opensandbox::Status& status) {
  return {{"state", status.state},
          {"reason", text_or_null(status.reason)},
          {"message", text_or_null(status.message)},
          {"last_transition_at", time_or_null(status.last_transition_at)}};
}

json::object encode(const opensandbox::SandboxInfo& info) {
  json::array entrypoint;
  for (const std::string& word : info.entrypoint) entrypoint.emplace_back(word);
  json::value image = nullptr, platform = nullptr, metadata = nullptr;
  if (!info.image.empty()) image = json::object{{"image", info.image}, {"auth", nullptr}};
  if (info.platform) platform = json::object{{"os", info.platform->os}, {"arch", info.platform->arch}};
  if (info.metadata) metadata = encode(*info.metadata);
  return {{"id", info.id},
          {"status", encode(info.status)},
          {"entrypoint", std::move(entrypoint)},
          {"expires_at", time_or_null(info.expires_at)},
          {"created_at", opensandbox::format_timestamp(info.created_at)},
          {"image", std::move(image)},
          {"snapshot_id", text_or_null(info.snapshot_id)},
          {"platform", std::move(platform)},
          {"allocation", raw_field(info.json, "allocation")},
          {"metadata", std::move(metadata)},
          {"extensions", raw_field(info.json, "extensions")}};
}

json::object encode_flat(const opensandbox::SandboxInfo& info) {
  json::object out;
  for (const auto& [key, value] : encode(info)) {
    const bool rare = key == "allocation" || key == "extensions";
    if (!rare || !value.is_null()) out[key] = value;
  }
  out["status"] = info.status.state;
  out["image"] = text_or_null(info.image);
  if (!info.status.reason.empty()) out["status_reason"] = info.status.reason;
  if (!info.status.message.empty()) out["status_message"] = info.status.message;
  return out;
}

json::object encode(const opensandbox::Page& page) {
  return {{"page", page.page},
          {"page_size", page.page_size},
          {"total_items", page.total_items},
          {"total_pages", page.total_pages},
          {"has_next_page", page.has_next_page}};
}

json::object encode(const opensandbox::Endpoint& endpoint) {
  return {{"endpoint", endpoint.endpoint}, {"headers", encode(endpoint.headers)}};
}

json::object encode(const opensandbox::Metrics& metrics) {
  return {{"cpu_count", metrics.cpu_count},
          {"cpu_used_percentage", metrics.cpu_used_pct},
          {"memory_total_in_mib", metrics.mem_total_mib},
          {"memory_used_in_mib", metrics.mem_used_mib},
          {"timestamp", metrics.timestamp}};
}

json::object encode(const opensandbox::CommandStatus& status) {
  json::object out{{"id", status.id},
                   {"content", text_or_null(status.content)},
                   {"running", status.running},
                   {"exit_code", status.exit_code ? json::value(*status.exit_code) : json::value(nullptr)},
                   {"error", text_or_null(status.error)},
                   {"started_at", time_or_null(status.started_at)},
                   {"finished_at", time_or_null(status.finished_at)}};
  if (!status.reason.empty()) out["reason"] = status.reason;
  if (!status.reason_message.empty()) out["reason_message"] = status.reason_message;
  return out;
}

json::object encode(const opensandbox::FileInfo& info) {
  return {{"path", info.path},
          {"entry_type", text_or_null(info.type)},
          {"mode", info.mode},
          {"owner", info.owner},
          {"group", info.group},
          {"size", info.size},
          {"modified_at", opensandbox::format_timestamp(info.modified_at)},
          {"created_at", opensandbox::format_timestamp(info.created_at)}};
}

json::object encode(const opensandbox::NetworkPolicy& policy) {
  json::array rules;
  for (const auto& rule : policy.egress) {
    json::object item{{"action", rule.action}, {"target", rule.target}};
    if (!rule.ports.empty()) item["ports"] = json::array(rule.ports.begin(), rule.ports.end());
    rules.push_back(std::move(item));
  }
  return {{"default_action", policy.default_action}, {"egress", std::move(rules)}};
}

json::object encode(const opensandbox::CredentialMetadata& credential) {
  json::object out{
      {"name", credential.name}, {"source_type", credential.source_type}, {"revision", credential.revision}};
  // The original knows none of these; they are there only where they say something.
  if (!credential.entry.empty()) out["entry"] = credential.entry;
  if (!credential.hosts.empty()) out["hosts"] = json::array(credential.hosts.begin(), credential.hosts.end());
  if (!credential.expires_at.empty()) out["expires_at"] = credential.expires_at;
  return out;
}

json::object encode(const opensandbox::CredentialBindingMetadata& binding) {
  const opensandbox::CredentialMatch& match = binding.match;
  return {{"name", binding.name},
          {"revision", binding.revision},
          {"match", json::object{{"schemes", list_or_null(match.schemes)},
                                 {"ports", list_or_null(match.ports)},
                                 {"hosts", json::array(match.hosts.begin(), match.hosts.end())},
                                 {"methods", list_or_null(match.methods)},
                                 {"paths", list_or_null(match.paths)}}},
          {"auth", json::object{{"type", binding.auth_type}, {"name", text_or_null(binding.auth_name)}}}};
}

json::object encode(const opensandbox::CredentialVaultState& state) {
  json::array credentials, bindings;
  for (const auto& credential : state.credentials) credentials.push_back(encode(credential));
  for (const auto& binding : state.bindings) bindings.push_back(encode(binding));
  json::object out{
      {"revision", state.revision}, {"credentials", std::move(credentials)}, {"bindings", std::move(bindings)}};
  if (!state.missing_values.empty()) {
    out["missing_values"] = json::array(state.missing_values.begin(), state.missing_values.end());
  }
  return out;
}

json::object encode(const opensandbox::Diagnostics& d) {
  const bool is_inline = d.delivery == "inline";
  return {{"sandbox_id", d.sandbox_id},
          {"kind", d.kind},
          {"scope", d.scope},
          {"delivery", d.delivery},
          {"content_type", d.content_type},
          {"truncated", d.truncated},
          {"content", is_inline ? json::value(d.content) : json::value(nullptr)},
          {"content_url", text_or_null(d.content_url)},
          {"content_length", d.content_length ? json::value(*d.content_length) : json::value(nullptr)},
          {"expires_at", time_or_null(d.expires_at)},
          {"warnings", list_or_null(d.warnings)}};
}

}  // namespace osb::cli
