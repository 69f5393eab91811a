#include "execd/code/jupyter/jupyter_message.h"

#include <algorithm>

#include "api/json.h"
#include "base/concat.h"
#include "base/json_escape.h"
#include "base/text.h"
#include "base/time.h"
#include "execd/code/mime_bundle.h"

namespace osb::execd::jupyter {
namespace {

constexpr api::ReadOptions kReading{};
constexpr std::size_t kMaxTraceback = 2000;  // lines
constexpr std::string_view kUnusedKernel = "python3";

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

bool is_path_part(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::ranges::all_of(id, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; });
}

Message::Type type_of(std::string_view name) {
  using Type = Message::Type;
  if (name == "stream") return Type::Stream;
  if (name == "execute_result") return Type::Result;
  if (name == "display_data" || name == "update_display_data") return Type::Display;
  if (name == "error") return Type::Error;
  if (name == "status") return Type::Status;
  if (name == "execute_input") return Type::Input;
  if (name == "execute_reply") return Type::Reply;
  if (name == "kernel_info_reply") return Type::InfoReply;
  return Type::Other;
}

std::string encode_request(std::string_view id, std::string_view client, std::string_view type,
                           std::string_view content) {
  return concat(R"({"header":{"msg_id":)", json_text(id), R"(,"username":"execd","session":)", json_text(client),
                R"(,"date":)", json_text(format_timestamp(timestamp_now())), R"(,"msg_type":)", json_text(type),
                R"(,"version":"5.3"},"parent_header":{},"metadata":{},"content":)", content,
                R"(,"buffers":[],"channel":"shell"})");
}

}  // namespace

Result<std::vector<KernelSpec>> decode_kernel_specs(std::string_view body) {
  const auto value = api::parse_json(body);
  if (!value) return Failure(value.error());
  std::vector<KernelSpec> out;
  api::ObjectReader r(*value, kReading);
  r.object("kernelspecs", [&](api::ObjectReader& specs) {
    specs.for_each_object([&](const std::string& key, api::ObjectReader& each) {
      KernelSpec spec;
      spec.name = key;
      each.object("spec", [&](api::ObjectReader& r) { spec.language = r.optional_string("language").value_or(""); });
      out.push_back(std::move(spec));
    });
  });
  if (auto done = r.finish(); !done) return Failure(done.error());
  return out;
}

std::string choose_kernel(const std::vector<KernelSpec>& specs, std::string_view language) {
  for (const KernelSpec& spec : specs) {
    if (spec.name != kUnusedKernel && spec.language == language) return spec.name;
  }
  return {};
}

std::string languages_of(const std::vector<KernelSpec>& specs) {
  std::vector<std::string> names;
  for (const KernelSpec& spec : specs) {
    if (spec.name != kUnusedKernel && !spec.language.empty()) names.push_back(spec.language);
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  std::string out;
  for (const std::string& name : names) out += concat(out.empty() ? "" : ", ", name);
  return out.empty() ? "none" : out;
}

std::string encode_session_request(std::string_view kernel, std::string_view cwd, std::string_view hex_id) {
  const std::string path = cwd.empty() ? concat(hex_id, ".ipynb") : concat(cwd, "/", hex_id, ".ipynb");
  return concat(R"({"path":)", json_text(path), R"(,"name":)", json_text(hex_id),
                R"(,"type":"notebook","kernel":{"name":)", json_text(kernel), "}}");
}

Result<Session> decode_session(std::string_view body) {
  const auto value = api::parse_json(body);
  if (!value) return Failure(value.error());
  api::ObjectReader r(*value, kReading);
  Session out;
  out.id = r.optional_string("id").value_or("");
  r.object("kernel", [&](api::ObjectReader& kernel) { out.kernel_id = kernel.optional_string("id").value_or(""); });
  if (auto done = r.finish(); !done) return Failure(done.error());
  if (!is_path_part(out.id) || !is_path_part(out.kernel_id)) {
    return fail(Code::Unavailable, "the answer has no session id and kernel id");
  }
  return out;
}

Result<Message> decode_message(std::string_view text) {
  const auto value = api::parse_json(text);
  if (!value) return Failure(value.error());
  api::ObjectReader r(*value, kReading);
  Message out;
  r.object("header",
           [&](api::ObjectReader& header) { out.type = type_of(header.optional_string("msg_type").value_or("")); });
  if (out.type == Message::Type::Other) return out;
  r.object("parent_header",
           [&](api::ObjectReader& header) { out.parent_id = header.optional_string("msg_id").value_or(""); });
  r.object("content", [&](api::ObjectReader& content) {
    using Type = Message::Type;
    switch (out.type) {
      case Type::Stream:
        out.is_stderr = content.optional_string("name") == "stderr";
        out.text = content.optional_string("text").value_or("");
        return;
      case Type::Status:
        out.text = content.optional_string("execution_state").value_or("");
        return;
      case Type::Result:
      case Type::Display:
        out.data = mime_bundle(content.find("data"));
        break;
      case Type::Reply:
        out.text = content.optional_string("status").value_or("");
        [[fallthrough]];
      case Type::Error:
        out.ename = content.optional_string("ename").value_or("");
        out.evalue = content.optional_string("evalue").value_or("");
        out.traceback = content.string_list("traceback").value_or(std::vector<std::string>());
        if (out.traceback.size() > kMaxTraceback) out.traceback.resize(kMaxTraceback);
        break;
      case Type::Input:
      case Type::InfoReply:
      case Type::Other:
        return;
    }
    if (out.type != Type::Display && out.type != Type::Error) {
      out.count = static_cast<std::uint64_t>(content.optional_int64("execution_count", 0).value_or(0));
    }
  });
  if (auto done = r.finish(); !done) return Failure(done.error());
  return out;
}

std::string encode_execute_request(std::string_view id, std::string_view client, std::string_view code) {
  return encode_request(id, client, "execute_request",
                        concat(R"({"code":)", json_text(code),
                               R"(,"silent":false,"store_history":true,"user_expressions":{},"allow_stdin":false,)"
                               R"("stop_on_error":true})"));
}

std::string encode_kernel_info_request(std::string_view id, std::string_view client) {
  return encode_request(id, client, "kernel_info_request", "{}");
}

}  // namespace osb::execd::jupyter
