#include "controller/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::controller {
namespace {

TEST(ControllerMetrics, AreInPrometheusTextFormat) {
  Figures figures;
  figures.leads = true;
  figures.sandboxes = 7;
  figures.queues = {{"pool", 10, 3, 2}};
  figures.pool_figures = {{"ns", "p", 5, 2, 3}};
  const std::string text = render_metrics(figures);
  for (const char* line : {"# TYPE opensandbox_controller_leader gauge\nopensandbox_controller_leader 1\n",
                           "opensandbox_controller_objects{kind=\"BatchSandbox\"} 7\n",
                           "opensandbox_controller_reconcile_total{queue=\"pool\",result=\"success\"} 7\n",
                           "opensandbox_controller_reconcile_total{queue=\"pool\",result=\"error\"} 3\n",
                           "opensandbox_controller_queue_waiting{queue=\"pool\"} 2\n",
                           "opensandbox_controller_pool_pods{namespace=\"ns\",pool=\"p\",state=\"available\"} 3\n"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(line));
  }
}

}  // namespace
}  // namespace osb::controller
