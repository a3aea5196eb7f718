#include <cohort/node/node.h>

int main() {
  cohort::NodeConfig config;
  config.store.sqlite.folder = "package-test-node";
  config.admin.port = 0;
  auto node = cohort::Node::start(config);
  return node && (*node)->chains().submit({.group = "g"}).await().ok() ? 0 : 1;
}
