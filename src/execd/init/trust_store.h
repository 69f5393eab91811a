#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "execd/path/path.h"

namespace osb::execd {

// Where programs of an image look for certificates.
struct TrustStore {
  std::string root = {};  // in front of all paths; tests have one
  // The first one that can be written gets the certificate and the bundle.
  std::vector<std::string> directories = {"/opt/opensandbox", "/var/lib/opensandbox", "/tmp/.opensandbox"};
};

// Makes programs of the sandbox trust a certificate authority (PEM): connections to hosts with credentials are opened
// on their way with its certificates. Puts it into the lists of Debian, Alpine, RHEL and openSUSE as far as this user
// may write them, writes
//
//   mitmproxy-ca-cert.pem        the certificate
//   merged-ca-certificates.pem   the image's list and the certificate
//
// and returns the variables that lead programs with a list of their own there. Java: see java_trust.h. It is the
// image's own file system, so nothing is gained by links in it. Doing it again changes nothing.
Environment trust_authority(std::string_view certificate, const Environment& env, const TrustStore& store = {});

// The same for the certificate in OPENSANDBOX_EGRESS_CA_CERTIFICATE, if there is one. Takes that variable out of `env`
// and puts the others in.
void trust_given_authority(Environment& env);

}  // namespace osb::execd
