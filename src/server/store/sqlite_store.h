#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "server/store/store.h"

namespace osb::server {

struct SqliteOptions {
  std::filesystem::path path;                 // its directory is made (0700) when missing, the file is 0600
  std::chrono::milliseconds busy_wait{5000};  // for another process to let go of it
};

// Records in one SQLite file (WAL, synchronous=FULL), held exclusively: a second server on the same file is refused.
// One writer thread takes all changes that have queued up into one transaction, so that twenty creates at once cost
// one fsync. Everything is loaded at start; reads are served from that index.
//
// Declare it after the loops that use it: the destructor commits what is queued and joins the thread.
//
// open() blocks; it checks the file, migrates an older schema forward, and reads it. Its errors are final and say what
// to do: GENERAL::STORE_IN_USE, _READ_ONLY, _FULL, _CORRUPT (the file is left as it is), _TOO_NEW (made by a later
// version), _FAILED.
Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteOptions& options);

}  // namespace osb::server
