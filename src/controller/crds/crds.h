#pragma once

#include <string>
#include <vector>

#include <boost/json/object.hpp>

namespace osb::controller {

struct CrdFile {
  std::string name;  // of the file: "sandbox.opensandbox.io_pools.yaml"
  boost::json::object definition;
};

// The three CustomResourceDefinitions, from one table of fields. The schemas are structural and use nothing newer than
// Kubernetes 1.20.
std::vector<CrdFile> crds();

// One of them, as `--print-crds` and the files of deploy/kubernetes/crds have it.
std::string crd_text(const CrdFile& file);

}  // namespace osb::controller
