#include "mcp/command_line.h"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/parse_number.h"
#include "base/text.h"

namespace osb::mcp {
namespace {

constexpr double kLeastReplyBytes = 4096;
constexpr double kMostReplyBytes = 16 << 20;
constexpr const char* kTokenVariable = "OPENSANDBOX_MCP_TOKEN";

std::optional<double> parse_number(const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !(out > 0) || out > 1e9) return std::nullopt;
  return out;
}

std::chrono::milliseconds from_seconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// The first line of a file, without blanks around it.
Result<std::string> read_secret(const std::string& path, std::string_view what) {
  std::ifstream file(path);
  std::string text;
  if (!file || !std::getline(file, text)) {
    return fail(Code::InvalidRequest, std::string(what) + ": cannot read " + path);
  }
  if (is_blank(text)) return fail(Code::InvalidRequest, std::string(what) + ": " + path + " is empty");
  return std::string(trimmed(text));
}

}  // namespace

const std::string_view kUsage =
    "usage: opensandbox-mcp [--transport stdio|streamable-http] [OPTION...]\n"
    "\n"
    "The OpenSandbox API:\n"
    "  --domain HOST[:PORT]           server (default: $OPEN_SANDBOX_DOMAIN, then localhost:8080)\n"
    "  --protocol http|https          (default: http)\n"
    "  --api-key KEY                  (default: $OPEN_SANDBOX_API_KEY; others on this machine can see arguments)\n"
    "  --api-key-file PATH            file that holds the key\n"
    "  --request-timeout-seconds N    (default: 30)\n"
    "  --use-server-proxy             reach sandboxes through the server\n"
    "  --ca-file PATH                 certificates to trust instead of the system's\n"
    "\n"
    "Tools:\n"
    "  --all-tools                    offer all tools; default: the published ones and the most used of the others\n"
    "  --max-reply-bytes N            most bytes of a result, 4096 to 16777216 (default: 65536); longer ones are cut\n"
    "                                 and say how to read the rest\n"
    "  --published-results            results in the shapes of the published server, for programs that parse them:\n"
    "                                 output schemas, structured content, a time stamp per line; not for models\n"
    "\n"
    "Clients:\n"
    "  --keep | --cleanup             keep or remove (default) a client's sandboxes when it disconnects\n"
    "  --list all|own                 sandboxes in sandbox_list (default: all for stdio, own for streamable-http)\n"
    "  --log-level LEVEL              debug, info, warn, error or off, to stderr (default: info)\n"
    "\n"
    "Streamable HTTP:\n"
    "  --host ADDRESS                 (default: 127.0.0.1; others need a token)\n"
    "  --port N                       (default: 8000; 0: any free one)\n"
    "  --path PATH                    (default: /mcp)\n"
    "  --token-file PATH              bearer token that clients must send (or: $OPENSANDBOX_MCP_TOKEN)\n"
    "  --allow-origin ORIGIN          web pages that may connect, besides those of this machine; repeatable\n"
    "  --allow-host NAME              names of this server in the Host header; repeatable\n"
    "  --session-timeout-seconds N    a session ends after so long without a connection (default: 1800)\n"
    "\n"
    "  --version, --help\n";

Result<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  CommandLine out;
  std::optional<std::string> list, path;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    const std::string name = arg.substr(0, arg.find('='));
    bool takes_value = true;
    std::string value;
    const auto flag = [&](std::string_view which) {
      if (arg != which) return false;
      takes_value = false;
      return true;
    };
    if (flag("--help") || flag("-h"))
      out.help = true;
    else if (flag("--version"))
      out.version = true;
    else if (flag("--keep"))
      out.session.keep_sandboxes = true;
    else if (flag("--cleanup"))
      out.session.keep_sandboxes = false;
    else if (flag("--use-server-proxy"))
      out.connection.use_server_proxy = true;
    else if (flag("--all-tools"))
      out.all_tools = true;
    else if (flag("--published-results"))
      out.session.reply.published = true;
    if (!takes_value) continue;

    constexpr std::string_view kWithValue[] = {"--transport",      "--domain",
                                               "--protocol",       "--api-key",
                                               "--api-key-file",   "--request-timeout-seconds",
                                               "--ca-file",        "--list",
                                               "--log-level",      "--host",
                                               "--port",           "--path",
                                               "--token-file",     "--allow-origin",
                                               "--allow-host",     "--session-timeout-seconds",
                                               "--max-reply-bytes"};
    if (std::ranges::find(kWithValue, name) == std::end(kWithValue)) {
      return fail(Code::InvalidRequest, "there is no option '" + name + "'");
    }
    if (name.size() < arg.size())
      value = arg.substr(name.size() + 1);
    else if (i + 1 < args.size())
      value = args[++i];
    else
      return fail(Code::InvalidRequest, name + " needs a value");

    const auto wrong = [&](std::string_view expected) {
      return fail(Code::InvalidRequest, name + ": expected " + std::string(expected));
    };
    if (name == "--transport") {
      if (value != "stdio" && value != "streamable-http") return wrong("stdio or streamable-http");
      out.stdio = value == "stdio";
    } else if (name == "--domain") {
      out.connection.domain = value;
    } else if (name == "--protocol") {
      if (value != "http" && value != "https") return wrong("http or https");
      out.connection.protocol = value;
    } else if (name == "--api-key") {
      out.connection.api_key = value;
    } else if (name == "--api-key-file") {
      out.api_key_file = value;
    } else if (name == "--ca-file") {
      out.connection.ca_file = value;
    } else if (name == "--request-timeout-seconds") {
      const auto number = parse_number(value);
      if (!number) return wrong("a number of seconds");
      out.connection.request_timeout = from_seconds(*number);
    } else if (name == "--session-timeout-seconds") {
      const auto number = parse_number(value);
      if (!number) return wrong("a number of seconds");
      out.http.session_timeout = from_seconds(*number);
    } else if (name == "--list") {
      if (value != "all" && value != "own") return wrong("all or own");
      list = value;
    } else if (name == "--log-level") {
      auto level = parse_log_level(value);
      if (!level) return wrong("debug, info, warn, error or off");
      out.log_level = *level;
    } else if (name == "--host") {
      out.host = value == "localhost" ? "127.0.0.1" : value;
    } else if (name == "--port") {
      const auto port = osb::parse_number<std::uint16_t>(value);
      if (!port) return wrong("a port");
      out.port = *port;
    } else if (name == "--max-reply-bytes") {
      const auto number = parse_number(value);
      if (!number || *number < kLeastReplyBytes || *number > kMostReplyBytes) return wrong("4096 to 16777216");
      out.session.reply.max_bytes = static_cast<std::size_t>(*number);
    } else if (name == "--path") {
      if (!value.starts_with('/')) return wrong("a path that begins with /");
      out.http.path = value;
    } else if (name == "--token-file") {
      out.token_file = value;
    } else if (name == "--allow-origin") {
      out.http.web.origins.push_back(value);
    } else {
      out.http.web.hosts.push_back(value);
    }
  }
  out.session.own_only = list ? *list == "own" : !out.stdio;
  return out;
}

Result<void> fill_secrets(CommandLine& line) {
  if (!line.api_key_file.empty()) {
    auto key = read_secret(line.api_key_file, "--api-key-file");
    if (!key) return Failure(key.error());
    line.connection.api_key = std::move(*key);
  }
  if (line.stdio) return {};
  if (!line.token_file.empty()) {
    auto token = read_secret(line.token_file, "--token-file");
    if (!token) return Failure(token.error());
    line.http.token = std::move(*token);
  } else if (const char* token = std::getenv(kTokenVariable); token != nullptr) {
    line.http.token = token;
  }
  const bool loopback = http::is_loopback_host(line.host);
  if (!loopback && line.http.token.empty()) {
    return fail(Code::InvalidRequest, "--host " + line.host +
                                          " can be reached from other machines, which could run code: give " +
                                          "--token-file or " + kTokenVariable);
  }
  // Beyond this machine it has names that we do not know; the token guards it.
  line.http.web.check_host = loopback || !line.http.web.hosts.empty();
  return {};
}

}  // namespace osb::mcp
