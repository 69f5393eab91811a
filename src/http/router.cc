#include "http/router.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "base/text.h"
#include "http/url.h"

namespace osb::http {

namespace {

constexpr std::size_t kMaxParams = 16;

struct Route {
  std::string method;
  std::string pattern;
  std::vector<std::string> names;  // of the parameters, in order
  bool tail = false;               // the last of them takes the raw rest
  Handler handler;
};

// unique_ptr: PathParams and Request::route point into a route.
using Routes = std::vector<std::unique_ptr<Route>>;

struct Search {
  std::string_view method;
  std::array<std::string_view, kMaxParams> values;  // raw
  std::size_t count = 0;
  std::vector<std::string_view> other_methods;  // of routes that fit the path only
};

const Route* find_method(const Routes& routes, std::string_view method) {
  for (const auto& route : routes) {
    if (route->method == method) return route.get();
  }
  return nullptr;
}

const Route* pick(const Routes& routes, Search& search) {
  if (routes.empty()) return nullptr;
  if (const Route* route = find_method(routes, search.method)) return route;
  if (search.method == "HEAD") {
    if (const Route* route = find_method(routes, "GET")) return route;
  }
  if (const Route* route = find_method(routes, "*")) return route;
  for (const auto& route : routes) search.other_methods.push_back(route->method);
  return nullptr;
}

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_name(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; });
}

std::string allow_header(std::vector<std::string_view> methods) {
  if (std::ranges::find(methods, "GET") != methods.end()) methods.push_back("HEAD");
  std::ranges::sort(methods);
  const auto repeated = std::ranges::unique(methods);
  methods.erase(repeated.begin(), repeated.end());
  std::string out;
  for (const std::string_view method : methods) {
    if (!out.empty()) out += ", ";
    out += method;
  }
  return out;
}

net::awaitable<Response> ready(Response response) { co_return response; }

}  // namespace

// One segment deep per level. A request visits a node at most once, so a match costs no more than the size of the tree.
struct Router::Node {
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> literals;  // sorted
  std::unique_ptr<Node> number;
  std::unique_ptr<Node> any;
  Routes here;
  Routes tail;

  Node& literal(std::string_view segment) {
    const std::size_t at = literal_index(segment);
    if (at < literals.size() && literals[at].first == segment) return *literals[at].second;
    return *literals
                .emplace(literals.begin() + static_cast<std::ptrdiff_t>(at), std::string(segment),
                         std::make_unique<Node>())
                ->second;
  }

  // `rest` is empty or starts with the slash in front of the next segment.
  const Route* find(std::string_view rest, Search& search) const {
    if (rest.size() <= 1) {
      if (const Route* route = pick(here, search)) return route;
    } else if (const auto end = std::min(rest.find('/', 1), rest.size()); end > 1) {
      if (const Route* route = find_below(rest.substr(1, end - 1), rest.substr(end), search)) return route;
    }
    if (tail.empty()) return nullptr;
    search.values[search.count++] = rest.empty() ? rest : rest.substr(1);
    if (const Route* route = pick(tail, search)) return route;
    --search.count;
    return nullptr;
  }

 private:
  // Of the first literal that is not less than `segment`.
  std::size_t literal_index(std::string_view segment) const {
    const auto name = [](const auto& entry) { return std::string_view(entry.first); };
    return static_cast<std::size_t>(std::ranges::lower_bound(literals, segment, {}, name) - literals.begin());
  }

  const Route* find_below(std::string_view raw, std::string_view rest, Search& search) const {
    std::string_view segment = raw;
    std::optional<std::string> decoded;
    if (raw.find('%') != std::string_view::npos) {
      decoded = percent_decode(raw);
      if (!decoded) return nullptr;  // dispatch() finds out why
      segment = *decoded;
    }
    const std::size_t at = literal_index(segment);
    if (at < literals.size() && literals[at].first == segment) {
      if (const Route* route = literals[at].second->find(rest, search)) return route;
    }
    if (!number && !any) return nullptr;
    search.values[search.count++] = raw;
    if (number && all_digits(segment)) {
      if (const Route* route = number->find(rest, search)) return route;
    }
    if (any) {
      if (const Route* route = any->find(rest, search)) return route;
    }
    --search.count;
    return nullptr;
  }
};

Router::Router() : Router(Codes()) {}
Router::Router(Codes codes) : root_(std::make_unique<Node>()), codes_(std::move(codes)) {}
Router::~Router() = default;
Router::Router(Router&&) noexcept = default;
Router& Router::operator=(Router&&) noexcept = default;

void Router::add(std::string_view method, std::string_view pattern, Handler handler) {
  const auto malformed = [&](const char* why) {
    return std::logic_error("route " + std::string(method) + " " + std::string(pattern) + ": " + why);
  };
  if (method.empty()) throw malformed("no method");
  if (!handler) throw malformed("no handler");
  if (!pattern.starts_with('/')) throw malformed("must start with a slash");

  auto route = std::make_unique<Route>();
  route->method = method;
  route->pattern = pattern;
  route->handler = std::move(handler);

  Node* node = root_.get();
  std::string_view rest = pattern == "/" ? std::string_view() : pattern;
  while (!rest.empty()) {
    if (route->tail) throw malformed("a tail must be last");
    const auto end = std::min(rest.find('/', 1), rest.size());
    std::string_view segment = rest.substr(1, end - 1);
    rest.remove_prefix(end);
    if (segment.empty()) throw malformed("empty segment");
    if (!segment.starts_with('{')) {
      if (segment.find_first_of("{}%?#*") != std::string_view::npos) throw malformed("special character in a literal");
      node = &node->literal(segment);
      continue;
    }
    if (!segment.ends_with('}')) throw malformed("unclosed parameter");
    segment = segment.substr(1, segment.size() - 2);
    std::unique_ptr<Node>* next = &node->any;
    if (segment.ends_with('*')) {
      segment.remove_suffix(1);
      route->tail = true;
      next = nullptr;
    } else if (segment.ends_with(":int")) {
      segment.remove_suffix(4);
      next = &node->number;
    }
    if (!is_name(segment)) throw malformed("bad parameter name");
    if (std::ranges::find(route->names, segment) != route->names.end()) throw malformed("repeated parameter");
    if (route->names.size() == kMaxParams) throw malformed("too many parameters");
    route->names.emplace_back(segment);
    if (!next) continue;
    if (!*next) *next = std::make_unique<Node>();
    node = next->get();
  }
  Routes& routes = route->tail ? node->tail : node->here;
  if (find_method(routes, method)) throw malformed("is there already");
  routes.push_back(std::move(route));
}

net::awaitable<Response> Router::dispatch(Request& request) const {
  const std::string_view path = request.path();
  request.params.clear();
  request.route = {};
  Search search;
  search.method = request.method;
  const Route* route = nullptr;
  if (path.starts_with('/') && path.find('\0') == std::string_view::npos) route = root_->find(path, search);
  if (!route) {
    if (!percent_decode(path)) {
      return ready(problem(400, codes_.bad_path, "the path contains a broken percent escape or a NUL"));
    }
    if (search.other_methods.empty()) {
      return ready(problem(404, codes_.not_found, "no route for " + std::string(path)));
    }
    Response response = problem(405, codes_.method_not_allowed, request.method + " is not allowed here");
    response.headers.add("Allow", allow_header(std::move(search.other_methods)));
    return ready(std::move(response));
  }
  for (std::size_t i = 0; i < search.count; ++i) {
    const std::string_view raw = search.values[i];
    const bool verbatim = (route->tail && i + 1 == search.count) || raw.find('%') == std::string_view::npos;
    // A segment that does not decode has matched nothing.
    request.params.add(route->names[i], verbatim ? std::string(raw) : percent_decode(raw).value());
  }
  request.route = route->pattern;
  return route->handler(request);
}

}  // namespace osb::http
