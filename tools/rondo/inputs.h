// What `run` and `bench` share: a program with its weights on a device, and where the instances come from.
#pragma once
#include <memory>
#include <string>

#include "rondo/io/instances.h"
#include "rondo/model.h"
#include "verbs.h"

namespace rondo::tool {

struct ModelArguments {
  std::string program, weights;
  std::string instances, trees, vocabulary;
  int64_t hash_words = 0;
  std::string device = "auto", replay = "auto";
  int threads = 0;
  DefineOption defines;

  // With --device and --replay where the verb has one of each.
  void add_to(CLI::App& verb, bool one_device);
  ModelOptions options() const;
  Model load(const ModelOptions& options) const;
  std::unique_ptr<io::InstanceSource> open(const Signature& signature) const;
};

}  // namespace rondo::tool
