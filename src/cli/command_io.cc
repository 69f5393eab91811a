#include "cli/command_io.h"

#include <algorithm>
#include <cstdio>

#include "cli/lookup/lookup.h"

namespace osb::cli {

std::filesystem::path CommandIo::config_path() const { return cli::config_path(flags, environment_); }

Expected<void> CommandIo::load_config() {
  auto resolved = resolve_config(flags, environment_, config_path());
  if (!resolved) return std::unexpected(resolved.error());
  config_ = std::move(*resolved);
  return {};
}

void CommandIo::limit_request_time(std::chrono::seconds limit) {
  config_.request_timeout = std::min<std::int64_t>(config_.request_timeout, limit.count());
}

Expected<opensandbox::Client> CommandIo::client() {
  if (client_) return *client_;
  opensandbox::ConnectionConfig wanted;
  wanted.domain = config_.domain.value_or("");
  wanted.api_key = config_.api_key.value_or("");
  wanted.protocol = config_.protocol;
  wanted.request_timeout = std::chrono::seconds(config_.request_timeout);
  wanted.use_server_proxy = config_.use_server_proxy;
  wanted.user_agent = "osb/" OSB_VERSION;
  if (flags.verbose) {
    wanted.debug = [](std::string_view line) {
      std::fprintf(stderr, "osb: %.*s\n", static_cast<int>(line.size()), line.data());
    };
  }
  auto opened = opensandbox::Client::open(std::move(wanted));
  if (!opened) return sdk_failed(*this, opened.error());
  return client_.emplace(std::move(*opened));
}

Expected<opensandbox::SandboxManager> CommandIo::manager() {
  auto connected = client();
  if (!connected) return std::unexpected(connected.error());
  return opensandbox::SandboxManager(std::move(*connected));
}

Expected<opensandbox::SandboxManager> CommandIo::manager_of_sandbox(std::string& id) {
  auto connected = manager();
  if (!connected) return connected;
  auto found = find_sandbox(*this, *connected, id);
  if (!found) return std::unexpected(found.error());
  id = std::move(*found);
  return connected;
}

Expected<opensandbox::SandboxManager> CommandIo::manager_of_snapshot(std::string& id) {
  auto connected = manager();
  if (!connected) return connected;
  auto found = find_snapshot(*this, *connected, id);
  if (!found) return std::unexpected(found.error());
  id = std::move(*found);
  return connected;
}

Expected<opensandbox::SandboxManager> CommandIo::manager_of_template(std::string& id) {
  auto connected = manager();
  if (!connected) return connected;
  auto found = find_template(*this, *connected, id);
  if (!found) return std::unexpected(found.error());
  id = std::move(*found);
  return connected;
}

Expected<opensandbox::Sandbox> CommandIo::sandbox(std::string& id) {
  auto manager = manager_of_sandbox(id);
  if (!manager) return std::unexpected(manager.error());
  return opensandbox::Sandbox::attach(manager->client(), id);
}

void CommandIo::set_output(Format format) {
  const bool color = config_.color && !flags.no_color;
  out_ = std::make_unique<Output>(format, standard_out(color), standard_error(color));
}

namespace {

// Whether a failed connection was one to the server, and not to a sandbox: the message names the address.
bool is_about_server(std::string_view message, const Config& config, std::string_view domain) {
  std::string_view scheme = config.protocol;
  if (const auto end = domain.find("://"); end != std::string_view::npos) {
    scheme = domain.substr(0, end);
    domain.remove_prefix(end + 3);
  }
  domain = domain.substr(0, domain.find_first_of("/?"));
  const auto colon = domain.rfind(':');
  const std::string_view host = domain.substr(0, colon);
  const std::string port = colon != std::string_view::npos ? std::string(domain.substr(colon))
                           : scheme == "https"             ? ":443"
                                                           : ":80";
  const bool is_name = host.find_first_not_of("0123456789.") != std::string_view::npos;
  for (auto at = message.find(port); at != std::string_view::npos; at = message.find(port, at + 1)) {
    const std::string_view rest = message.substr(at + port.size());
    if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') continue;  // a longer number
    if (is_name || message.substr(0, at).ends_with(host)) return true;
  }
  return is_name && message.find(host) != std::string_view::npos;
}

std::string advice(const CommandIo& context, const opensandbox::Error& error) {
  using opensandbox::ErrorKind;
  const Config& config = context.config();
  const auto about = [&error](std::string_view what) { return error.code.find(what) != std::string::npos; };
  if (error.code == "SANDBOX_PAUSED") return {};  // the message says what to do
  if (error.kind == ErrorKind::Network) {
    if (error.message.find("does not speak TLS") != std::string::npos)
      return "Use --protocol http, or another --domain.";
    const std::string where = config.domain.value_or(kDefaultDomain);
    if (is_about_server(error.message, config, where)) {
      // osb up starts one on this machine only.
      const bool local = where.starts_with("localhost") || where.starts_with("127.") || where.starts_with("[::1]");
      return "Is the server at " + where + " running? " + (local ? "'osb up' starts one; " : "") +
             "'osb doctor' checks it; --domain names another one.";
    }
    return config.use_server_proxy ? "" : "If this machine cannot reach the sandbox itself, use --use-server-proxy.";
  }
  if (error.status == 503 && about("::UNAVAILABLE")) return "'osb doctor' shows what the server is missing.";
  if (error.status == 401 && config.withheld) return withheld_hint(config);
  if (error.status == 401) return "Set the right one with --api-key or OPEN_SANDBOX_API_KEY.";
  if (about("HOST_PATH_NOT_ALLOWED")) {
    return "Allow it with 'osb up --allow-host-path DIR', or in allowed_host_paths of the server's configuration.";
  }
  if (error.not_found() && about("SANDBOX")) return "See 'osb sandbox list' for what there is.";
  if (error.not_found() && about("SNAPSHOT")) return "See 'osb snapshot list' for what there is.";
  if (error.not_found() && about("FILE")) return "'osb ls' shows the existing files.";
  if (error.kind == ErrorKind::ReadyTimeout) return "Give it longer, or look at 'osb devops summary ID'.";
  return {};
}

}  // namespace

std::unexpected<Problem> sdk_failed(const CommandIo& context, const opensandbox::Error& error) {
  Problem problem{"Sandbox Error", error.code, error.message, advice(context, error)};
  problem.status = error.status;
  problem.request_id = error.request_id;
  return std::unexpected(std::move(problem));
}

}  // namespace osb::cli
