#pragma once

#include <opensandbox/egress.h>
#include <opensandbox/files.h>
#include <opensandbox/templates.h>
#include <opensandbox/types.h>
#include <string_view>
#include <vector>

#include "client/json.h"
#include "client/wire.h"

// Wire objects. A decoder of a Reply demands what the contract requires and ignores what it does not know.
namespace opensandbox {

Result<SandboxInfo> decode_sandbox(const Reply& reply);
SandboxInfo sandbox_from(const json::object& object);
Result<SandboxList> decode_sandbox_list(const Reply& reply);
Result<Timestamp> decode_renewed(const Reply& reply);
Result<Snapshot> decode_snapshot(const Reply& reply);
Result<SnapshotList> decode_snapshot_list(const Reply& reply);
Result<Template> decode_template(const Reply& reply);
Result<TemplateList> decode_template_list(const Reply& reply);
Result<std::vector<Image>> decode_images(const Reply& reply);
Image image_from(const json::object& object);
Result<Diagnostics> decode_diagnostics(const Reply& reply);
Result<DiagnosticContext> decode_diagnostic_context(const Reply& reply);
Result<Metrics> decode_metrics(std::string_view body, std::string_view request_id);

std::string encode_create(const CreateOptions& options);
std::string encode_create_template(const CreateTemplateOptions& options);
// key=value&key2=value2
std::string metadata_filter(const StringMap& metadata);

}  // namespace opensandbox
