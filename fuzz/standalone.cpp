// main() of a fuzz target where there is no libFuzzer: every file of the given folders as it is, then a bounded number of
// mutations of them, always the same ones. A crash names its input by the last line printed.
//   fuzz_NAME MUTATIONS FOLDER_OR_FILE...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

uint64_t state = 20240229;
uint64_t draw(uint64_t n) {  // splitmix64
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) % n;
}

// A few small changes: bits, bytes, pieces removed, doubled, or taken from another input.
std::string mutate(const std::vector<std::string>& corpus) {
  std::string text = corpus[draw(corpus.size())];
  for (uint64_t n = 1 + draw(4); n > 0; --n) {
    if (text.empty()) text = "0";
    const size_t at = draw(text.size()), length = 1 + draw(std::min<size_t>(32, text.size() - at));
    switch (draw(6)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << draw(8))); break;
      case 1: text[at] = static_cast<char>(draw(256)); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, text.substr(at, length)); break;
      case 4: {
        const std::string& other = corpus[draw(corpus.size())];
        if (!other.empty()) text.insert(at, other.substr(draw(other.size()), length));
        break;
      }
      case 5: text.resize(at); break;
    }
  }
  return text;
}

void feed(const std::string& text) { LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size()); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MUTATIONS FOLDER_OR_FILE...\n", argv[0]);
    return 2;
  }
  std::vector<fs::path> files;
  for (int i = 2; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) files.push_back(argv[i]);
    else for (const auto& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    feed(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 1;
  }
  const std::string current = std::string(argv[0]) + ".input";
  const long mutations = std::atol(argv[1]);
  for (long i = 0; i < mutations; ++i) {
    const std::string text = mutate(corpus);
    // Left behind by a crash, gone otherwise: the input that did it.
    std::ofstream(current, std::ios::binary) << text;
    feed(text);
  }
  fs::remove(current);
  std::printf("%zu inputs and %ld mutations\n", corpus.size(), mutations);
  return 0;
}
