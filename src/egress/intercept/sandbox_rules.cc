#include "egress/intercept/sandbox_rules.h"

#include <utility>

#include "async/timer.h"
#include "base/log.h"
#include "policy/text.h"

namespace osb::egress {
namespace {

using intercept::Admission;
using intercept::Flow;
using intercept::Protocol;
using intercept::Verdict;

constexpr const char* kUnknown = "the connection comes from no sandbox with a policy";

class ReplacingFilter final : public intercept::StreamFilter {
 public:
  explicit ReplacingFilter(vault::ReplacementsPtr replacements) : replacer_(std::move(replacements)) {}
  void write(std::string_view piece, std::string& out) override { replacer_.write(piece, out); }
  void finish(std::string& out) override { replacer_.finish(out); }

 private:
  vault::StreamReplacer replacer_;
};

intercept::MakeStreamFilter replacing(const vault::ReplacementsPtr& replacements) {
  if (!replacements || replacements->empty()) return {};
  return [replacements] { return std::make_unique<ReplacingFilter>(replacements); };
}

Verdict verdict_of(std::shared_ptr<const vault::Decision> decision, bool scrub_bodies) {
  Verdict out;
  out.holder = decision;
  if (!decision->binding.empty()) out.subject = "credential binding " + decision->binding;
  switch (decision->outcome) {
    case vault::Outcome::NoMatch:
      out.kind = Verdict::Kind::Forward;
      return out;
    case vault::Outcome::Injected:
      break;
    default:
      out.kind = Verdict::Kind::Answer;
      out.status = decision->status;
      out.message = decision->message;
      return out;
  }
  out.kind = Verdict::Kind::Edit;
  for (const vault::HeaderEdit& edit : decision->headers) out.headers.set(edit.name, std::string(edit.value.view()));
  if (decision->target) out.target.emplace(decision->target->view());
  out.filter_request = replacing(decision->body);
  out.clean_value = [redactions = decision->redactions](std::string& value) {
    if (redactions->occurs_in(value)) value = redactions->apply(value).view();
  };
  if (scrub_bodies) out.filter_answer = replacing(decision->redactions);
  return out;
}

// In audit mode denied connections pass, unless a rule of the operator denies them.
bool passes_audited(const Sandbox& sandbox, const policy::Rule* rule) {
  return sandbox.audit && !sandbox.matcher->of_operator(rule);
}

// Closed to the sandbox whatever name resolves to it, as in answers of the DNS proxy.
bool is_closed(const Sandbox& sandbox, const IpAddress& address) {
  const policy::Rule* denied = sandbox.matcher->denies(address);
  return (denied != nullptr && !passes_audited(sandbox, denied)) ||
         (!is_public(address) && sandbox.matcher->allows(address) == nullptr);
}

}  // namespace

SandboxRules::SandboxRules(net::any_io_executor executor, Sandboxes& sandboxes, Resolver& resolver, const Clock& clock,
                           Options options, Audit audit)
    : executor_(std::move(executor)),
      sandboxes_(sandboxes),
      resolver_(resolver),
      clock_(clock),
      options_(std::move(options)),
      audit_(std::move(audit)) {}

Result<std::map<std::string, std::vector<IpAddress>>> SandboxRules::parse_pins(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<IpAddress>> out;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    const auto address = parse_ip_address(equals == std::string::npos ? "" : text.substr(equals + 1));
    if (!address || equals == 0) return fail(Code::InvalidRequest, "\"" + text + "\": expected HOST=ADDRESS");
    out[policy::lower(text.substr(0, equals))].push_back(*address);
  }
  return out;
}

Admission SandboxRules::admit(const Flow& flow, Protocol protocol, const std::optional<std::string>& name) {
  const SandboxPtr sandbox = sandboxes_.by_address(flow.sandbox);
  if (!sandbox || sandbox->gone) return {Admission::Kind::Refuse, kUnknown};
  if (name) {
    const policy::Verdict verdict = sandbox->matcher->name(*name);
    if (!verdict.allowed()) {
      const bool audited = passes_audited(*sandbox, verdict.rule);
      sandbox->decisions.record(*name, verdict, audited,
                                std::chrono::time_point_cast<Timestamp::duration>(clock_.now()));
      if (!audited) return {Admission::Kind::Refuse, "the network policy denies " + *name};
    }
    const char* scheme = protocol == Protocol::Tls ? "https" : "http";
    if (protocol != Protocol::Other && sandbox->injector && sandbox->injector->binds(scheme, *name)) {
      return {Admission::Kind::Open, ""};
    }
  }
  if (may_reach(*sandbox, flow.destination, flow.port, name.has_value())) return {Admission::Kind::Splice, ""};
  return {Admission::Kind::Refuse, "the network policy denies " + flow.to_string()};
}

bool SandboxRules::may_reach(const Sandbox& sandbox, const IpAddress& address, std::uint16_t port, bool named) const {
  const policy::Matcher& matcher = *sandbox.matcher;
  const policy::Verdict verdict = matcher.address(address, policy::Transport::Tcp, port);
  if (verdict.rule != nullptr && verdict.allowed()) return true;
  if (verdict.rule != nullptr && !passes_audited(sandbox, verdict.rule)) return false;
  if (!is_public(address)) return false;
  if (!sandbox.opens_addresses() || sandbox.audit) return true;
  // Open because a name resolved to it: then the connection has to name a host too, or it could reach every other host
  // at that address.
  return named && sandbox.opened.is_open(address, clock_.steady_now());
}

Verdict SandboxRules::judge(const Flow& flow, std::string_view scheme, std::string_view host,
                            const http::Request& request) {
  const SandboxPtr sandbox = sandboxes_.by_address(flow.sandbox);
  auto decision = std::make_shared<vault::Decision>();
  if (!sandbox || sandbox->gone) {
    decision->outcome = vault::Outcome::Denied;
    decision->status = 403;
    decision->message = std::string(kUnknown) + "\n";
  } else if (const vault::InjectorPtr injector = sandbox->injector) {
    std::vector<vault::HeaderView> headers;
    headers.reserve(request.headers.size());
    for (const auto& [name, value] : request.headers) headers.push_back({name, value});
    *decision = injector->decide({.scheme = scheme,
                                  .host = host,
                                  .method = request.method,
                                  .target = request.target,
                                  .headers = headers,
                                  .port = flow.port,
                                  .verified = true});  // see Rules::judge
  }
  return verdict_of(std::move(decision), options_.scrub_bodies);
}

bool SandboxRules::may_ask(Sandbox& sandbox, std::string_view host, const Question& question) {
  const std::size_t free = sandbox.free_bytes(host, sandbox.matcher->name(host));
  if (free == 0 || resolver_.cached(question) || resolver_.is_in_flight(question)) return true;
  return sandbox.budget.take_name(host, free, clock_.steady_now());
}

net::awaitable<std::shared_ptr<const Answer>> SandboxRules::look_up(SandboxPtr sandbox, Question question) {
  if (auto found = resolver_.cached(question)) co_return std::move(found->answer);
  struct Asked {
    explicit Asked(net::any_io_executor executor) : answered(std::move(executor)) {}
    Event answered;
    std::shared_ptr<const Answer> answer;
  };
  // Shared: the answer may come after the connection that needs it has ended.
  const auto asked = std::make_shared<Asked>(executor_);
  resolver_.resolve(sandbox->number, question, [asked](const std::shared_ptr<const Answer>& answer, std::uint32_t) {
    asked->answer = answer;
    asked->answered.set();
  });
  (void)co_await asked->answered.wait();
  co_return asked->answer;
}

net::awaitable<Result<std::vector<IpAddress>>> SandboxRules::resolve(IpAddress from, std::string host) {
  const SandboxPtr sandbox = sandboxes_.by_address(from);
  if (!sandbox || sandbox->gone) co_return fail(Code::Forbidden, kUnknown);
  if (const auto pinned = options_.pins.find(host); pinned != options_.pins.end()) co_return pinned->second;
  const auto name = name_from_text(host);
  if (!name) co_return fail(Code::InvalidRequest, "no host name");
  const Question question(*name, RecordType::A, false, false);
  if (!may_ask(*sandbox, host, question)) co_return fail(Code::Unavailable, "rate limit");
  const auto answer = co_await look_up(sandbox, question);
  if (!answer) co_return fail(Code::Unavailable, "no name server answered");
  std::vector<IpAddress> open;
  for (const auto& each : answer->addresses()) {
    if (!is_closed(*sandbox, each.address)) open.push_back(each.address);
  }
  if (open.empty() && answer->addresses().empty()) co_return fail(Code::NotFound, "the name has no address");
  if (open.empty()) {
    co_return fail(Code::Forbidden,
                   "its addresses are not public, or denied by the network policy; allow them by address");
  }
  co_return open;
}

void SandboxRules::finished(const Flow& flow, const Verdict& verdict, const Outcome& outcome) {
  const SandboxPtr sandbox = sandboxes_.by_address(flow.sandbox);
  if (!sandbox || !verdict.holder || !audit_) return;
  audit_(*sandbox, *std::static_pointer_cast<const vault::Decision>(verdict.holder), outcome);
}

void SandboxRules::failed(const Flow& flow, std::string_view host, std::string_view why) {
  const SandboxPtr sandbox = sandboxes_.by_address(flow.sandbox);
  if (!sandbox) return;
  if (!host.empty()) sandbox->decisions.failed(host, why);
  log_debug("intercepted connection failed",
            {{"sandbox_id", sandbox->id}, {"target_host", host}, {"to", flow.to_string()}, {"why", why}});
}

}  // namespace osb::egress
