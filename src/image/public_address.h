#pragma once

#include <string>

namespace osb::image {

// An address of the internet: not loopback, private (RFC 1918, ULA), link-local, shared (100.64.0.0/10), multicast or
// reserved, and none that a cloud gives to its own machines only. IPv6 addresses that stand for an IPv4 address
// (::ffff:a.b.c.d, 64:ff9b::a.b.c.d) are judged by that one. False for text that is no plain address.
bool is_public_address(const std::string& address);

// 127.0.0.0/8 or ::1, also as an IPv4 address in IPv6.
bool is_loopback_address(const std::string& address);

// The kernel delivers packets to this address to this machine itself.
bool is_own_address(const std::string& address);

}  // namespace osb::image
