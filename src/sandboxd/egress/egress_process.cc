#include "sandboxd/egress/egress_process.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>

#include "async/timer.h"
#include "base/backoff.h"
#include "base/log.h"
#include "http/url.h"
#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace link = api::egress;

constexpr std::chrono::milliseconds kFirstPause(50), kLastPause(5000);
constexpr std::chrono::milliseconds kEndLimit(5000);
constexpr std::size_t kMostChanges = 1024;
constexpr int kLinkFd = 3, kUdpFd = 4, kTcpFd = 5, kInterceptFd = 6;
constexpr rlim_t kLockedMemory = 64 << 20, kLeastLockedMemory = 4 << 20;  // for the secrets of credential vaults
constexpr std::size_t kMostVault = 1 << 20;

struct Started {
  UniqueFd link;
  sys::Child child;
};

Result<Started> start_program(const EgressProcess::Options& options, const EgressSockets& sockets) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) return sys::from_errno("socketpair", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const auto program = sys::open_at(AT_FDCWD, options.program, O_PATH);
  if (!program) return Failure(program.error());
  sys::SpawnPlan plan;
  plan.program = options.program;
  plan.program_fd = program->get();
  plan.argv = {options.program,  "--host",
               "--link-fd",      std::to_string(kLinkFd),
               "--udp-fd",       std::to_string(kUdpFd),
               "--tcp-fd",       std::to_string(kTcpFd),
               "--intercept-fd", std::to_string(kInterceptFd)};
  plan.env = {"PATH=/usr/bin:/bin"};
  plan.cwd = "/";
  plan.fds = {{1, 2},
              {2, 2},
              {kLinkFd, theirs.get()},
              {kUdpFd, sockets.udp.get()},
              {kTcpFd, sockets.tcp.get()},
              {kInterceptFd, sockets.intercept.get()}};
  plan.group = sys::SpawnPlan::Group::NewSession;
  plan.uid = options.user;
  plan.gid = options.user;
  plan.groups = std::vector<gid_t>{};
  auto child = sys::spawn(plan);
  if (!child) return Failure(child.error());
  // Not possible for a daemon without CAP_SYS_RESOURCE, whose own limit is mostly enough.
  const rlimit locked{.rlim_cur = kLockedMemory, .rlim_max = kLockedMemory};
  rlimit own{};
  ::getrlimit(RLIMIT_MEMLOCK, &own);
  if (::prlimit(child->pid, RLIMIT_MEMLOCK, &locked, nullptr) < 0 && own.rlim_cur < kLeastLockedMemory)
    log_warn("credential vaults may find no memory to lock: raise the limit of locked memory (LimitMEMLOCK)",
             {{"bytes", own.rlim_cur}});
  return Started{.link = std::move(ours), .child = std::move(*child)};
}

// Of a URL that the settings have checked.
std::string host_of(const std::string& url) {
  const auto parsed = http::Url::parse(url);
  return parsed ? parsed->host : std::string();
}

link::Answer answer_to(std::uint64_t seq, const Result<std::uint64_t>& result) {
  using enum link::Answer::Problem;
  if (result) return {.seq = seq, .revision = *result};
  const Code code = result.error().code;
  const auto problem = code == Code::Conflict || code == Code::NotFound         ? Stale
                       : code == Code::InvalidRequest || code == Code::TooLarge ? Refused
                                                                                : Internal;
  return {.seq = seq, .revision = 0, .problem = problem, .message = result.error().message};
}

}  // namespace

std::vector<std::string> host_resolvers(std::string_view resolv_conf) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string> out;
  sys::for_each_line(resolv_conf, [&](std::string_view line) {
    constexpr std::string_view kName = "nameserver";
    if (!line.starts_with(kName)) return;
    line.remove_prefix(kName.size());
    const std::size_t begin = line.find_first_not_of(kBlank);
    if (begin == 0 || begin == std::string_view::npos) return;
    line.remove_prefix(begin);
    const auto address = parse_ip_address(line.substr(0, line.find_first_of(kBlank)));
    if (!address) return;
    const std::string text = format_ip_address(*address);
    out.push_back((address->v6 ? "[" + text + "]" : text) + ":53");
  });
  return out;
}

EgressProcess::EgressProcess(net::any_io_executor executor, BlockingPool& pool, NetworkPolicies& policies,
                             EgressAuthority& authority, Options options)
    : executor_(executor),
      pool_(pool),
      policies_(policies),
      authority_(authority),
      options_(std::move(options)),
      files_(options_.rules_directory, host_of(options_.otlp_endpoint)),
      tasks_(executor) {}

EgressProcess::~EgressProcess() = default;

Result<void> EgressProcess::load_rules() {
  auto loaded = files_.load();
  if (!loaded) return Failure(loaded.error());
  rules_ = std::move(*loaded);
  return policies_.set_overlays(rules_.overlays);
}

void EgressProcess::start(EgressSockets sockets, SetPolicy set_policy, SetVault set_vault, Token token) {
  sockets_ = std::move(sockets);
  set_policy_ = std::move(set_policy);
  set_vault_ = std::move(set_vault);
  token_ = std::move(token);
  tasks_.spawn("egress process", run());
  tasks_.spawn("watch rules", files_.watch([this] { reload_rules(); }));
  end_revoked_later();  // of an earlier daemon
}

net::awaitable<void> EgressProcess::close() {
  // The process ends with its link.
  co_await tasks_.close();
}

net::awaitable<void> EgressProcess::run() {
  Backoff pause(kFirstPause, kLastPause);
  for (;;) {
    auto started = start_program(options_, sockets_);
    if (started) {
      log_info("egress process started", {{"pid", started->child.pid}});
      const auto ended = co_await serve(std::move(started->link), std::move(started->child.pidfd));
      if (!ended && ended.error().code == Code::Cancelled) co_return;
      log_error("egress process ended: names of sandboxes with a policy do not resolve until it runs again",
                {{"error", ended ? "it closed its link" : ended.error().message}});
      if (std::exchange(ready_, false)) pause.reset();
    } else {
      log_error("egress process not started", {{"error", started.error().message}});
    }
    if (!co_await sleep_for(pause.next())) co_return;
  }
}

// Until the process has ended, or has sent something that cannot be read.
net::awaitable<Result<void>> EgressProcess::serve(UniqueFd socket, UniqueFd pidfd) {
  struct Ending {
    EgressProcess& self;
    UniqueFd process;
    ~Ending() {
      self.link_.reset();
      (void)sys::send_signal(process.get(), SIGKILL);
      (void)sys::wait_ended(process.get(), kEndLimit);
      siginfo_t info{};
      ::waitid(P_PIDFD, static_cast<id_t>(process.get()), &info, WEXITED | WNOHANG);
    }
  } ending{.self = *this, .process = std::move(pidfd)};
  auto opened = FrameSocket::open(executor_, std::move(socket));
  if (!opened) co_return Failure(opened.error());
  link_.emplace(std::move(*opened));
  ++links_;
  if (auto greeted = greet(); !greeted) co_return greeted;
  for (;;) {
    auto frame = co_await link_->read();
    if (!frame) co_return Failure(frame.error());
    if (!*frame) co_return Result<void>();
    auto message = link::decode_to_sandboxd((*frame)->body);
    if (!message) co_return with_context("message of the egress process", message.error());
    if (std::holds_alternative<link::Ready>(*message)) {
      ready_ = true;
      log_info("egress process is ready");
    } else if (const auto* open = std::get_if<link::OpenAddresses>(&*message)) {
      // Here, not on the pool: a program waits for the name, and this takes microseconds.
      send(policies_.open(*open));
    } else if (auto* change = std::get_if<link::SetPolicy>(&*message)) {
      if (changing_ >= kMostChanges) co_return fail(Code::Exhausted, "it changes too many policies at once");
      tasks_.spawn("set policy", set_policy(std::move(*change), links_));
    } else if (auto* vault = std::get_if<link::SetVault>(&*message)) {
      if ((*frame)->body.size() > kMostVault) co_return fail(Code::TooLarge, "it stores a vault that is too large");
      if (changing_ >= kMostChanges) co_return fail(Code::Exhausted, "it changes too many vaults at once");
      tasks_.spawn("set vault", set_vault(std::move(*vault), links_));
    }
  }
}

Result<void> EgressProcess::greet() {
  sent_resolvers_.clear();
  sent_authority_ = false;
  if (auto sent = send_resolvers(); !sent) return sent;
  send(rules_.texts);
  for (const NetworkPolicies::State& each : policies_.list()) send_sandbox(each.id);
  return {};
}

// The process opens no file, so it gets the certificates of the machine from here, if a report needs them.
std::string EgressProcess::trust_for_reports() const {
  if (!options_.otlp_endpoint.starts_with("https:") && !options_.deny_webhook.starts_with("https:")) return "";
  auto trust = authority_.trust();
  if (!trust) log_error("reports over https are not sent", {{"error", trust.error().message}});
  return std::move(trust).value_or("");
}

Result<void> EgressProcess::send_resolvers() {
  std::vector<std::string> resolvers = options_.resolvers;
  if (resolvers.empty()) resolvers = host_resolvers(sys::read_text("/etc/resolv.conf").value_or(""));
  if (resolvers == sent_resolvers_ && !resolvers.empty()) return {};
  const bool first = sent_resolvers_.empty();
  sent_resolvers_ = resolvers;
  const auto most = static_cast<std::uint32_t>(NetworkPolicies::kMostAddresses);
  return link_->send(link::encode(link::ToEgress(link::Hello{.resolvers = std::move(resolvers),
                                                             .max_addresses = most,
                                                             .otlp_endpoint = options_.otlp_endpoint,
                                                             .otlp_interval = options_.otlp_interval,
                                                             .deny_webhook = options_.deny_webhook,
                                                             .trust = first ? trust_for_reports() : "",
                                                             .log_names = options_.log_names})));
}

void EgressProcess::send(const link::ToEgress& message) {
  if (!link_) return;
  // A process that does not read is ended, and another one is told everything.
  if (auto sent = link_->send(link::encode(message)); !sent) {
    log_error("egress process does not listen", {{"error", sent.error().message}});
    link_->close();
  }
}

void EgressProcess::send_sandbox(const std::string& id) {
  const auto state = policies_.find(id);
  const std::string token = state ? token_(id) : "";
  const auto address = state ? parse_ip_address(state->address) : std::nullopt;
  if (!state || !address || token.empty()) return send(link::SandboxGone{id});
  if (state->record.intercept) send_authority();
  send(link::SandboxPolicy{.id = id,
                           .address = *address,
                           .revision = state->record.revision,
                           .policy = policy::to_json(state->record.policy),
                           .token = token,
                           .audit = state->record.audit,
                           .intercept = state->record.intercept,
                           .vault = state->record.vault});
}

// Without it the process accepts no intercepted connection: they wait, and vaults say so.
void EgressProcess::send_authority() {
  if (sent_authority_) return;
  auto message = authority_.message();
  if (!message) return log_error("connections cannot be intercepted", {{"error", message.error().message}});
  sent_authority_ = true;
  message->proxy = options_.upstream_proxy;
  message->proxy_authorization = options_.upstream_proxy_authorization;
  send(*message);
  ::explicit_bzero(message->authority.data(), message->authority.size());
}

void EgressProcess::changed(std::string id) {
  net::post(executor_, [this, id = std::move(id)] {
    if (!link_) return;
    // The host's name servers may have changed since the last sandbox.
    if (auto sent = send_resolvers(); !sent) log_warn("resolvers not sent", {{"error", sent.error().message}});
    send_sandbox(id);
  });
}

net::awaitable<void> EgressProcess::set_policy(link::SetPolicy request, std::uint64_t asked_by) {
  ++changing_;
  Result<std::uint64_t> result = 0;
  if (auto policy = policy::parse_policy(boost::json::serialize(request.policy))) {
    result = co_await set_policy_(request.id, request.revision, std::move(*policy));
  } else {
    result = Failure(policy.error());
  }
  --changing_;
  if (!result) log_warn("policy not changed", {{"id", request.id}, {"error", result.error().message}});
  if (links_ == asked_by) {
    if (result) send_sandbox(request.id);
    send(answer_to(request.seq, result));
  }
  if (result) end_revoked_later();
}

net::awaitable<void> EgressProcess::set_vault(link::SetVault request, std::uint64_t asked_by) {
  ++changing_;
  const Result<std::uint64_t> result = co_await set_vault_(request.id, std::move(request.vault));
  --changing_;
  if (!result) log_warn("credential vault not stored", {{"id", request.id}, {"error", result.error().message}});
  if (links_ == asked_by) send(answer_to(request.seq, result));
}

void EgressProcess::end_revoked_later() {
  end_again_ = true;
  if (!std::exchange(ending_revoked_, true)) tasks_.spawn("end revoked connections", end_revoked());
}

net::awaitable<void> EgressProcess::end_revoked() {
  while (std::exchange(end_again_, false)) {
    co_await pool_.run([&] { policies_.end_revoked_connections(); });
  }
  ending_revoked_ = false;
}

void EgressProcess::reload_rules() {
  auto loaded = files_.load();
  if (!loaded) {
    log_error("rules of the operator cannot be read: THE OLD RULES STAY IN FORCE", {{"error", loaded.error().message}});
    return;
  }
  if (loaded->texts.deny == rules_.texts.deny && loaded->texts.allow == rules_.texts.allow) return;
  rules_ = std::move(*loaded);
  // The kernel first: a name that is denied now must not stay open.
  if (auto set = policies_.set_overlays(rules_.overlays); !set)
    log_error("rules of the operator are not in force everywhere", {{"error", set.error().message}});
  send(rules_.texts);
  end_revoked_later();
  log_info("rules of the operator changed",
           {{"deny", rules_.overlays.deny.size()}, {"allow", rules_.overlays.allow.size()}});
}

Result<UniqueFd> EgressProcess::connect(const std::string& id) {
  if (!link_ || !ready_) {
    return fail(Code::Unavailable, "the policy API of sandbox " + id + " is starting again; try again in a moment");
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) return sys::from_errno("socketpair", errno);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  auto sent = link_->send(link::encode(link::ToEgress(link::Connection{id})), std::move(theirs));
  if (!sent) return Failure(sent.error());
  return ours;
}

}  // namespace osb::sandboxd
