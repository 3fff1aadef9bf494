// Random programs mean the same before and after specialise, and after lower; levels and phases are what is
// promised.
#include <gtest/gtest.h>

#include "host_interpreter.h"
#include "random_program.h"
#include "rondo/analysis/facts.h"
#include "rondo/lang/lang.h"
#include "rondo/plan/lower.h"
#include "rondo/plan/specialise.h"

namespace rondo {
namespace {

constexpr int kPrograms = 150;
constexpr int kInstances = 3;

TEST(Specialise, RandomProgramsKeepTheirMeaning) {
  for (uint32_t seed = 1; seed <= kPrograms; ++seed) {
    testing::RandomProgram random(seed);
    const std::string text = random.text();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const ir::Program program = lang::parse_program(text, "random.rondo");
    const ir::Program specialised = plan::specialise(program, analysis::find_reuse(program));
    const std::vector<ir::WeightData> weights = random.weights();
    for (int k = 0; k < kInstances; ++k) {
      const std::vector<ir::EvalValue> instance = random.instance();
      const ir::EvalValue before = ir::evaluate(program, weights, instance);
      ASSERT_LE(ir::largest_difference(before, ir::evaluate(specialised, weights, instance)), 1e-12);
    }
  }
}

TEST(Lower, RandomProgramsKeepTheirMeaningAndLevelsAreExact) {
  for (uint32_t seed = 1; seed <= kPrograms; ++seed) {
    testing::RandomProgram random(seed);
    const std::string text = random.text();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const ir::Program program = lang::parse_program(text, "random.rondo");
    const ir::Program specialised = plan::specialise(program, analysis::find_reuse(program));
    const plan::Lowered lowered = plan::lower(specialised, analysis::find_facts(specialised));
    const std::vector<ir::WeightData> weights = random.weights();
    testing::HostInterpreter interpreter(lowered, weights);
    for (int k = 0; k < kInstances; ++k) {
      const std::vector<ir::EvalValue> instance = random.instance();
      const ir::EvalValue expected = ir::evaluate(program, weights, instance);
      ASSERT_LE(ir::largest_difference(expected, interpreter.run(instance)), 1e-9);
    }
  }
}

}  // namespace
}  // namespace rondo
