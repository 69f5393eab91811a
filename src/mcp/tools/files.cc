#include "mcp/tools/files.h"

#include "base/utf8.h"
#include "mcp/schema.h"

namespace osb::mcp::tools {
namespace {

net::awaitable<opensandbox::Result<void>> take(Part& part, std::size_t max_bytes, std::string_view piece) {
  part.truncated = part.bytes.size() + piece.size() > max_bytes;
  part.bytes.append(piece.substr(0, max_bytes - part.bytes.size()));
  if (!part.truncated) co_return opensandbox::Result<void>();
  opensandbox::Error enough;
  enough.kind = opensandbox::ErrorKind::Cancelled;
  enough.code = "CANCELLED";
  co_return opensandbox::Failure(std::move(enough));
}

}  // namespace

net::awaitable<opensandbox::Result<Part>> read_some(sdk::Sandbox sandbox, std::string path,
                                                    opensandbox::ReadRange range, std::size_t max_bytes) {
  Part part;
  sdk::ByteSink sink = [&part, max_bytes](std::string_view piece) { return take(part, max_bytes, piece); };
  auto read = co_await sandbox.files().read_to(std::move(path), std::move(sink), range);
  if (!read && !part.truncated) co_return opensandbox::Failure(read.error());
  co_return part;
}

void cut_at_character(std::string& text) {
  std::size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4 && (static_cast<unsigned char>(text[begin - 1]) & 0xC0) == 0x80) --begin;
  if (begin == 0) return;
  --begin;  // the last byte that begins a character
  const char* const end = text.data() + text.size();
  if (static_cast<unsigned char>(text[begin]) >= 0xC0 && utf8_sequence_length(text.data() + begin, end) == 0) {
    text.resize(begin);
  }
}

json::object file_info_schema() {
  return schema::object({{"path", schema::string("")},
                         {"type", schema::nullable(schema::string("file, directory, symlink or other."))},
                         {"mode", schema::integer("Permissions, written as in chmod: 644.")},
                         {"owner", schema::string("")},
                         {"group", schema::string("")},
                         {"size", schema::integer("Bytes.")},
                         {"modified_at", schema::string("")},
                         {"created_at", schema::string("")}});
}

json::object encode_file_info(const opensandbox::FileInfo& info) {
  return {{"path", info.path},
          {"type", or_null(info.type)},
          {"mode", info.mode},
          {"owner", info.owner},
          {"group", info.group},
          {"size", info.size},
          {"modified_at", opensandbox::format_timestamp(info.modified_at)},
          {"created_at", opensandbox::format_timestamp(info.created_at)}};
}

}  // namespace osb::mcp::tools
