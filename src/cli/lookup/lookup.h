#pragma once

#include <opensandbox/manager.h>
#include <string>

#include "cli/command_io.h"

namespace osb::cli {

// The key of a sandbox's metadata that holds its name.
inline constexpr const char* kNameKey = "name";

std::string name_of(const opensandbox::SandboxInfo& info);  // "" is none

// The id of the sandbox or snapshot that a user calls `given`: see choose_reference(). One request unless it is a
// whole id; a server that knows no ?match= is asked for all of them.
Expected<std::string> find_sandbox(const CommandIo& context, const opensandbox::SandboxManager& manager,
                                   const std::string& given);
Expected<std::string> find_snapshot(const CommandIo& context, const opensandbox::SandboxManager& manager,
                                    const std::string& given);

// The same for the beginning of a template's id, with or without its tpl-.
Expected<std::string> find_template(const CommandIo& context, const opensandbox::SandboxManager& manager,
                                    const std::string& given);

// Puts the name into a create. The server refuses it when another create was faster; other servers do not look.
void claim_name(opensandbox::CreateOptions& create, const std::string& name);

// Refuses a name that is no name, or that a sandbox has which has not ended.
Expected<void> check_free_name(const CommandIo& context, const opensandbox::SandboxManager& manager,
                               const std::string& name);

}  // namespace osb::cli
