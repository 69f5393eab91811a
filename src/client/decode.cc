#include "client/decode.h"

#include "client/errors.h"
#include "client/network_policy.h"

namespace opensandbox {
namespace {

Result<json::value> object_in(const Reply& reply) {
  auto value = parse_answer(reply.body, reply.request_id);
  if (value && !value->is_object()) return invalid_response("the answer is no JSON object", reply.request_id);
  return value;
}

Status status_from(const json::object& object) {
  Status out;
  if (const auto* status = object_of(object, "status")) {
    out.state = text_of(*status, "state");
    out.reason = text_of(*status, "reason");
    out.message = text_of(*status, "message");
    out.last_transition_at = time_of(*status, "lastTransitionAt");
  }
  return out;
}

std::optional<Platform> platform_from(const json::object& object) {
  const auto* platform = object_of(object, "platform");
  if (platform == nullptr) return std::nullopt;
  return Platform{.os = text_of(*platform, "os"), .arch = text_of(*platform, "arch")};
}

Page page_from(const json::object& object) {
  Page out;
  if (const auto* page = object_of(object, "pagination")) {
    out.page = static_cast<int>(int_of(*page, "page").value_or(1));
    out.page_size = static_cast<int>(int_of(*page, "pageSize").value_or(0));
    out.total_items = static_cast<int>(int_of(*page, "totalItems").value_or(0));
    out.total_pages = static_cast<int>(int_of(*page, "totalPages").value_or(0));
    out.has_next_page = bool_of(*page, "hasNextPage");
  }
  return out;
}

Snapshot snapshot_from(const json::object& object) {
  Snapshot out;
  out.id = text_of(object, "id");
  out.sandbox_id = text_of(object, "sandboxId");
  out.name = text_of(object, "name");
  out.status = status_from(object);
  out.created_at = time_of(object, "createdAt").value_or(Timestamp{});
  out.json = json::serialize(object);
  return out;
}

template <typename List, typename From>
Result<List> decode_list(const Reply& reply, From from) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  const auto& object = value->get_object();
  const auto* items = array_of(object, "items");
  if (items == nullptr) return invalid_response("the list has no items", reply.request_id);
  List out;
  for (const auto& item : *items) {
    if (const auto* entry = item.if_object()) out.items.push_back(from(*entry));
  }
  out.pagination = page_from(object);
  out.json = reply.body;
  return out;
}

}  // namespace

SandboxInfo sandbox_from(const json::object& object) {
  SandboxInfo out;
  out.id = text_of(object, "id");
  out.status = status_from(object);
  if (const auto* image = object_of(object, "image")) out.image = text_of(*image, "uri");
  out.snapshot_id = text_of(object, "snapshotId");
  out.template_id = text_of(object, "templateId");
  out.platform = platform_from(object);
  out.entrypoint = texts_of(object, "entrypoint");
  if (const auto* metadata = object_of(object, "metadata")) out.metadata = map_of(*metadata);
  if (const auto* extensions = object_of(object, "extensions")) out.extensions = map_of(*extensions);
  if (const auto* allocation = object_of(object, "allocation")) {
    out.allocation =
        Allocation{text_of(*allocation, "mode"), text_of(*allocation, "poolRef"), text_of(*allocation, "state")};
  }
  out.created_at = time_of(object, "createdAt").value_or(Timestamp{});
  out.expires_at = time_of(object, "expiresAt");
  out.json = json::serialize(object);
  return out;
}

Result<SandboxInfo> decode_sandbox(const Reply& reply) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  SandboxInfo out = sandbox_from(value->get_object());
  if (out.id.empty()) return invalid_response("the sandbox has no id", reply.request_id);
  return out;
}

Result<SandboxList> decode_sandbox_list(const Reply& reply) { return decode_list<SandboxList>(reply, sandbox_from); }

Result<Timestamp> decode_renewed(const Reply& reply) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  const auto time = time_of(value->get_object(), "expiresAt");
  if (!time) return invalid_response("the answer has no expiresAt", reply.request_id);
  return *time;
}

Result<Snapshot> decode_snapshot(const Reply& reply) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  Snapshot out = snapshot_from(value->get_object());
  if (out.id.empty()) return invalid_response("the snapshot has no id", reply.request_id);
  return out;
}

Result<SnapshotList> decode_snapshot_list(const Reply& reply) {
  return decode_list<SnapshotList>(reply, snapshot_from);
}

namespace {

Template template_from(const json::object& object) {
  Template out;
  out.id = text_of(object, "templateId");
  out.image = text_of(object, "image");
  out.publish = text_of(object, "publish");
  if (const auto* limits = object_of(object, "resourceLimits")) out.resource_limits = map_of(*limits);
  out.entrypoint = texts_of(object, "entrypoint");
  if (const auto* env = object_of(object, "env")) out.env = map_of(*env);
  if (const auto* metadata = object_of(object, "metadata")) out.metadata = map_of(*metadata);
  if (const auto* readiness = object_of(object, "readiness")) {
    out.readiness = TemplateReadiness{text_of(*readiness, "probe"), {}};
    if (const auto warmup = int_of(*readiness, "warmupSeconds")) {
      out.readiness->warmup_seconds = std::chrono::seconds(*warmup);
    }
  }
  out.format = text_of(object, "format");
  if (const auto* status = object_of(object, "status")) {
    out.phase = text_of(*status, "phase");
    out.manifest_ref = text_of(*status, "manifestRef");
    out.message = text_of(*status, "message");
  }
  out.created_at = time_of(object, "createdAt").value_or(Timestamp{});
  out.updated_at = time_of(object, "updatedAt").value_or(Timestamp{});
  out.json = json::serialize(object);
  return out;
}

}  // namespace

Result<Template> decode_template(const Reply& reply) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  Template out = template_from(value->get_object());
  if (out.id.empty()) return invalid_response("the template has no id", reply.request_id);
  return out;
}

Result<TemplateList> decode_template_list(const Reply& reply) {
  return decode_list<TemplateList>(reply, template_from);
}

Image image_from(const json::object& object) {
  Image out;
  out.uri = text_of(object, "uri");
  out.digest = text_of(object, "digest");
  out.platform = platform_from(object);
  if (const auto size = int_of(object, "sizeBytes")) out.size_bytes = static_cast<std::uint64_t>(*size);
  out.created_at = time_of(object, "createdAt");
  out.json = json::serialize(object);
  return out;
}

Result<std::vector<Image>> decode_images(const Reply& reply) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  const auto* items = array_of(value->get_object(), "items");
  if (items == nullptr) return invalid_response("the list has no items", reply.request_id);
  std::vector<Image> out;
  for (const auto& item : *items) {
    if (const auto* entry = item.if_object()) out.push_back(image_from(*entry));
  }
  return out;
}

Result<Diagnostics> decode_diagnostics(const Reply& reply) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  const auto& object = value->get_object();
  Diagnostics out;
  out.sandbox_id = text_of(object, "sandboxId");
  out.kind = text_of(object, "kind");
  out.scope = text_of(object, "scope");
  out.delivery = text_of(object, "delivery");
  out.content_type = text_of(object, "contentType");
  out.truncated = bool_of(object, "truncated");
  out.content = text_of(object, "content");
  out.content_url = text_of(object, "contentUrl");
  if (const auto length = int_of(object, "contentLength")) out.content_length = static_cast<std::uint64_t>(*length);
  out.expires_at = time_of(object, "expiresAt");
  out.warnings = texts_of(object, "warnings");
  out.json = reply.body;
  return out;
}

Result<DiagnosticContext> decode_diagnostic_context(const Reply& reply) {
  const auto value = object_in(reply);
  if (!value) return Failure(value.error());
  const auto& object = value->get_object();
  DiagnosticContext out;
  out.sandbox_id = text_of(object, "sandboxId");
  out.backend_type = text_of(object, "backendType");
  if (const auto* names = object_of(object, "backendIdentifiers")) out.backend_identifiers = map_of(*names);
  out.state = text_of(object, "state");
  out.json = reply.body;
  if (out.backend_type.empty()) return invalid_response("the context has no backendType", reply.request_id);
  return out;
}

Result<Metrics> decode_metrics(std::string_view body, std::string_view request_id) {
  const auto value = parse_answer(body, request_id);
  if (!value) return Failure(value.error());
  if (!value->is_object()) return invalid_response("the metrics are no JSON object", std::string(request_id));
  const auto& object = value->get_object();
  if (const std::string error = text_of(object, "error"); !error.empty()) return invalid_response(error);
  Metrics out;
  out.cpu_count = number_of(object, "cpu_count").value_or(0);
  out.cpu_used_pct = number_of(object, "cpu_used_pct").value_or(0);
  out.mem_total_mib = number_of(object, "mem_total_mib").value_or(0);
  out.mem_used_mib = number_of(object, "mem_used_mib").value_or(0);
  out.timestamp = int_of(object, "timestamp").value_or(0);
  out.json = body;
  return out;
}

namespace {

json::object encode_volume(const Volume& volume) {
  json::object out{{"name", volume.name}, {"mountPath", volume.mount_path}, {"readOnly", volume.read_only}};
  if (!volume.sub_path.empty()) out["subPath"] = volume.sub_path;
  if (volume.host) out["host"] = json::object{{"path", volume.host->path}};
  if (volume.pvc) {
    json::object pvc{{"claimName", volume.pvc->claim_name}};
    if (volume.pvc->create_if_not_exists) pvc["createIfNotExists"] = *volume.pvc->create_if_not_exists;
    if (volume.pvc->delete_on_sandbox_termination) {
      pvc["deleteOnSandboxTermination"] = *volume.pvc->delete_on_sandbox_termination;
    }
    if (!volume.pvc->storage_class.empty()) pvc["storageClass"] = volume.pvc->storage_class;
    if (!volume.pvc->storage.empty()) pvc["storage"] = volume.pvc->storage;
    if (!volume.pvc->access_modes.empty()) pvc["accessModes"] = to_json(volume.pvc->access_modes);
    out["pvc"] = std::move(pvc);
  }
  if (volume.ossfs) {
    json::object ossfs{{"bucket", volume.ossfs->bucket}, {"endpoint", volume.ossfs->endpoint}};
    if (!volume.ossfs->version.empty()) ossfs["version"] = volume.ossfs->version;
    if (!volume.ossfs->options.empty()) ossfs["options"] = to_json(volume.ossfs->options);
    if (!volume.ossfs->access_key_id.empty()) ossfs["accessKeyId"] = volume.ossfs->access_key_id;
    if (!volume.ossfs->access_key_secret.empty()) ossfs["accessKeySecret"] = volume.ossfs->access_key_secret;
    out["ossfs"] = std::move(ossfs);
  }
  return out;
}

json::object encode_probe(const ActiveProbe& probe) {
  json::object out{{"port", probe.port}, {"path", probe.path}};
  if (probe.timeout) out["timeoutSeconds"] = probe.timeout->count();
  return out;
}

template <typename Hook>
json::object encode_hook(const Hook& hook, json::object out = {}) {
  out["command"] = to_json(hook.command);
  if (hook.timeout) out["timeoutSeconds"] = hook.timeout->count();
  return out;
}

json::object encode_lifecycle(const Lifecycle& lifecycle) {
  json::object out;
  if (lifecycle.pre_start) out["preStart"] = encode_hook(*lifecycle.pre_start);
  if (!lifecycle.periodic.empty()) {
    json::array hooks;
    for (const PeriodicHook& hook : lifecycle.periodic) {
      hooks.push_back(encode_hook(hook, {{"name", hook.name}, {"schedule", hook.schedule}}));
    }
    out["periodic"] = std::move(hooks);
  }
  if (lifecycle.idle) {
    json::object policy{{"wakeOnAccess", lifecycle.idle->wake_on_access}};
    if (lifecycle.idle->pause_after) {
      policy["idleTimeoutSeconds"] = lifecycle.idle->pause_after->count();
      policy["onIdle"] = "pause";
    }
    if (lifecycle.idle->active_probe) policy["activeProbe"] = encode_probe(*lifecycle.idle->active_probe);
    out["idlePolicy"] = std::move(policy);
  }
  if (lifecycle.renew_on_access) {
    out["renewalPolicy"] = json::object{{"extendSeconds", lifecycle.renew_on_access->count()}};
  }
  return out;
}

}  // namespace

std::string encode_create(const CreateOptions& options) {
  json::object out;
  if (!options.image.empty()) {
    json::object image{{"uri", options.image}};
    if (options.image_auth) {
      image["auth"] =
          json::object{{"username", options.image_auth->username}, {"password", options.image_auth->password}};
    }
    out["image"] = std::move(image);
  }
  if (!options.snapshot_id.empty()) out["snapshotId"] = options.snapshot_id;
  const bool of_template = !options.template_id.empty();
  if (of_template) out["templateId"] = options.template_id;
  if (!options.entrypoint.empty() && !of_template) out["entrypoint"] = to_json(options.entrypoint);
  if (options.timeout) out["timeout"] = options.timeout->count();
  if (!of_template) out["resourceLimits"] = to_json(options.resource_limits);
  if (!options.resource_requests.empty()) out["resourceRequests"] = to_json(options.resource_requests);
  if (!options.env.empty()) out["env"] = to_json(options.env);
  if (!options.metadata.empty()) out["metadata"] = to_json(options.metadata);
  if (!options.extensions.empty()) out["extensions"] = to_json(options.extensions);
  if (options.network_policy) out["networkPolicy"] = encode_policy(*options.network_policy);
  if (options.credential_proxy) out["credentialProxy"] = json::object{{"enabled", true}};
  if (options.secure_access) out["secureAccess"] = true;
  if (!options.volumes.empty()) {
    json::array volumes;
    for (const auto& volume : options.volumes) volumes.push_back(encode_volume(volume));
    out["volumes"] = std::move(volumes);
  }
  if (options.platform) {
    out["platform"] = json::object{{"os", options.platform->os}, {"arch", options.platform->arch}};
  }
  if (json::object lifecycle = encode_lifecycle(options.lifecycle); !lifecycle.empty()) {
    out["lifecycle"] = std::move(lifecycle);
  }
  return json::serialize(out);
}

std::string encode_create_template(const CreateTemplateOptions& options) {
  json::object out{{"image", options.image}, {"publish", options.publish}};
  if (!options.resource_limits.empty()) out["resourceLimits"] = to_json(options.resource_limits);
  if (!options.entrypoint.empty()) out["entrypoint"] = to_json(options.entrypoint);
  if (!options.env.empty()) out["env"] = to_json(options.env);
  if (!options.metadata.empty()) out["metadata"] = to_json(options.metadata);
  if (options.readiness) {
    json::object readiness;
    if (!options.readiness->probe.empty()) readiness["probe"] = options.readiness->probe;
    if (options.readiness->warmup_seconds) readiness["warmupSeconds"] = options.readiness->warmup_seconds->count();
    out["readiness"] = std::move(readiness);
  }
  if (!options.format.empty()) out["format"] = options.format;
  return json::serialize(out);
}

std::string metadata_filter(const StringMap& metadata) {
  std::string out;
  for (const auto& [key, value] : metadata) out += (out.empty() ? "" : "&") + encode(key) + '=' + encode(value);
  return out;
}

}  // namespace opensandbox
