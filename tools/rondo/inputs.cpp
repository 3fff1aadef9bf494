#include "inputs.h"

#include <fmt/format.h>

namespace rondo::tool {

void ModelArguments::add_to(CLI::App& verb, bool one_device) {
  verb.add_option("program", program, "The .rondo file")->required();
  verb.add_option("--weights", weights, "The .safetensors file with the weights, by name")->required();
  verb.add_option("--instances", instances, "Instances as JSON lines; - is standard input");
  verb.add_option("--trees", trees, "Instances as bracketed trees, (label (label word) ..), of any treebank; - is standard input");
  verb.add_option("--vocab", vocabulary, "With --trees: a word a line, numbered from 0; <unk> stands for all others");
  verb.add_option("--hash-words", hash_words, "With --trees: a word is its hash modulo N")->type_name("N");
  if (one_device) {
    verb.add_option("--device", device, "auto, cpu, cuda or cuda:N")->capture_default_str();
    verb.add_option("--replay", replay, "How cuda launches: auto, graph or stream")->capture_default_str();
  }
  verb.add_option("--threads", threads, "Threads that walk instances (0: as many as the machine has)")->capture_default_str();
  defines.add_to(verb);
}

ModelOptions ModelArguments::options() const {
  ModelOptions o;
  o.device = device;
  o.replay = replay;
  if (threads < 0) throw Error(ErrorKind::Usage, fmt::format("--threads {}: expected 0 or more", threads));
  o.threads = static_cast<unsigned>(threads);
  o.defines = defines.parsed();
  return o;
}

Model ModelArguments::load(const ModelOptions& o) const { return Model::load(program, Weights::load(weights), o); }

std::unique_ptr<io::InstanceSource> ModelArguments::open(const Signature& signature) const {
  if (instances.empty() == trees.empty()) {
    throw Error(ErrorKind::Usage, "where are the instances? Expected one of --instances FILE.jsonl and --trees FILE.txt");
  }
  if (!instances.empty()) {
    if (!vocabulary.empty() || hash_words != 0) {
      throw Error(ErrorKind::Usage, "--vocab and --hash-words turn the words of --trees into numbers; --instances has numbers already");
    }
    return io::open_json_lines(instances);
  }
  if (!vocabulary.empty() && hash_words != 0) {
    throw Error(ErrorKind::Usage, "--vocab and --hash-words are two ways to number words; expected one of them");
  }
  if (hash_words < 0) throw Error(ErrorKind::Usage, fmt::format("--hash-words {}: expected 1 or more", hash_words));
  io::Vocabulary words = !vocabulary.empty() ? io::Vocabulary::file(vocabulary)
                         : hash_words > 0    ? io::Vocabulary::hash(hash_words)
                                             : io::Vocabulary::numbers();
  return io::open_trees(trees, std::move(words), signature);
}

}  // namespace rondo::tool
