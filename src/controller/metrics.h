#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace osb::controller {

// Figures of the controller at the moment of a scrape.
struct Figures {
  struct Queue {
    std::string name;
    std::uint64_t done = 0, failed = 0;
    std::size_t waiting = 0;
  };
  struct PoolFigures {
    std::string ns, name;
    std::int64_t total = 0, allocated = 0, available = 0;
  };
  bool leads = false;
  std::uint64_t writes = 0;
  std::uint64_t grants = 0;
  std::uint64_t events_dropped = 0;
  std::size_t sandboxes = 0, pools = 0, snapshots = 0;
  std::vector<Queue> queues;
  std::vector<PoolFigures> pool_figures;
};

// Prometheus' text format.
std::string render_metrics(const Figures& figures);

}  // namespace osb::controller
