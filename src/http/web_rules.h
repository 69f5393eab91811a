#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace osb::http {

// A host as Host and Origin write it: "name:port". Views into the text that was split.
struct HostPort {
  std::string_view name;  // without brackets and final dot
  std::string_view port;  // digits; empty: none
};
// Nothing: no host, or one with characters that names and addresses do not have, such as the '@' of a user.
std::optional<HostPort> split_host(std::string_view text);

// localhost, 127.x.y.z or ::1, with or without brackets, port and final dot.
bool is_loopback_host(std::string_view host);
// "sub.localhost", with or without port and final dot. Browsers and resolvers send it to this machine.
bool is_below_localhost(std::string_view host);

// application/json or any type that ends in +json. A web page cannot send these to another origin without asking first.
bool is_json_type(std::string_view content_type);
// Types that a web page sends to every origin without asking: form data, plain text and none at all.
bool is_form_type(std::string_view content_type);

// Decides which names a server has and which web pages may talk to it. A page in a user's browser reaches servers of
// the user's machine and network, also under a name of the page's own that resolves to their address (DNS rebinding).
struct WebRules {
  bool check_host = true;
  std::vector<std::string> hosts = {};    // names besides those of this machine; "*.example.com" covers all names below
  std::vector<std::string> origins = {};  // "https://chat.example.com"; "*" is every one
  bool loopback_origins = false;          // pages of other servers on this machine may talk to this one too

  bool allows_host(std::string_view host) const;
  // Whether the origin is the server's own (its host is `host`) or an allowed one.
  bool allows_origin(std::string_view origin, std::string_view host) const;
  // Allowed by name, "*" aside.
  bool names_origin(std::string_view origin) const;
};

// The origin's host is `host`. Schemes are not compared: a proxy in front may speak TLS.
bool is_same_origin(std::string_view origin, std::string_view host);

// Whether a browser sent the request for a page of another origin, in the background: a script, an image, a form in a
// frame. Following a link is no such request. Browsers say so in Sec-Fetch-Site, other clients do not send it.
bool is_background_request_of_other_site(const Request& request);

}  // namespace osb::http
