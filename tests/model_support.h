// Compiled models against the reference evaluator: the same program, weights and instances for both.
#pragma once
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "io_support.h"
#include "rondo/ir/evaluate.h"
#include "rondo/lang/lang.h"
#include "rondo/model.h"

namespace rondo::test {

using ir::EvalValue;

// Uniform in +-scale, the same numbers for both sides.
inline std::vector<ir::WeightData> random_weights(const ir::Program& program, uint32_t seed, double scale = 0.5) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(static_cast<float>(-scale), static_cast<float>(scale));
  std::vector<ir::WeightData> out;
  for (const ir::Weight& w : program.weights) {
    ir::WeightData data{w.name, program.types[w.type].dims, {}};
    data.values.resize(static_cast<size_t>(program.types.numel(w.type)));
    for (double& v : data.values) v = uniform(random);
    out.push_back(std::move(data));
  }
  return out;
}

inline Weights to_weights(const std::vector<ir::WeightData>& all) {
  Weights w;
  for (const ir::WeightData& data : all)
    w.set(data.name, data.dims, std::vector<float>(data.values.begin(), data.values.end()));
  return w;
}

inline Value to_value(const EvalValue& v, TypeId type, Batch* batch) {
  const Signature& s = batch->signature();
  const Type& t = s.types()[type];
  const auto parts = [&](const std::vector<TypeId>& types, bool same) {
    std::vector<Value> out;
    for (size_t i = 0; i < v.parts().size(); ++i) out.push_back(to_value(v.parts()[i], same ? types[0] : types[i], batch));
    return out;
  };
  switch (t.kind) {
    case TypeKind::Int: return Value::integer(v.integer());
    case TypeKind::Bool: return Value::boolean(v.integer() != 0);
    case TypeKind::Tensor: return batch->tensor(type, std::vector<float>(v.values().begin(), v.values().end()));
    case TypeKind::List: return batch->list(type, parts(t.args, true));
    case TypeKind::Tuple: return batch->tuple(type, parts(t.args, false));
    case TypeKind::Adt: break;
  }
  const ConstructorId id{type, static_cast<int32_t>(v.constructor())};
  return batch->make(id, parts(s[id].fields, false));
}

inline void add_instance(const std::vector<EvalValue>& arguments, Batch* batch) {
  std::vector<Value> values;
  for (size_t i = 0; i < arguments.size(); ++i)
    values.push_back(to_value(arguments[i], batch->signature().params()[i], batch));
  batch->add(values);
}

inline EvalValue to_eval(const OutputView& v) {
  const auto parts = [&] {
    std::vector<EvalValue> out;
    for (size_t i = 0; i < v.size(); ++i) out.push_back(to_eval(v[i]));
    return out;
  };
  switch (v.kind()) {
    case TypeKind::Int: return EvalValue::integer(v.integer());
    case TypeKind::Bool: return EvalValue::integer(v.boolean());
    case TypeKind::Tensor: return EvalValue::tensor(v.dims(), {v.tensor().begin(), v.tensor().end()});
    case TypeKind::List: return EvalValue::list(parts());
    case TypeKind::Tuple: return EvalValue::tuple(parts());
    case TypeKind::Adt: break;
  }
  return EvalValue::adt(v.tag(), parts());
}

// All floats of a value, in order, for comparing bit for bit.
inline void floats_of(const OutputView& v, std::vector<float>* out) {
  if (v.kind() == TypeKind::Tensor) out->insert(out->end(), v.tensor().begin(), v.tensor().end());
  if (v.kind() == TypeKind::Tensor || v.kind() == TypeKind::Int || v.kind() == TypeKind::Bool) return;
  for (size_t i = 0; i < v.size(); ++i) floats_of(v[i], out);
}

inline EvalValue random_tree(std::mt19937* random, int leaves, int words) {
  if (leaves == 1) return EvalValue::adt(0, {EvalValue::integer(static_cast<int64_t>((*random)() % static_cast<uint32_t>(words)))});
  const int left = 1 + static_cast<int>((*random)() % static_cast<uint32_t>(leaves - 1));
  EvalValue l = random_tree(random, left, words);
  return EvalValue::adt(1, {std::move(l), random_tree(random, leaves - left, words)});
}

inline EvalValue random_words(std::mt19937* random, int count, int words) {
  std::vector<EvalValue> out;
  for (int i = 0; i < count; ++i)
    out.push_back(EvalValue::integer(static_cast<int64_t>((*random)() % static_cast<uint32_t>(words))));
  return EvalValue::list(std::move(out));
}

// A program compiled for a device, with weights for both sides.
struct Both {
  Both(const std::string& text, const std::string& name, const lang::Overrides& defines = {}, uint32_t seed = 1,
       const std::string& device = "cpu")
      : program(lang::parse_program(text, name, defines)),
        weights(random_weights(program, seed)),
        model(Model::compile(text, name, to_weights(weights), options(defines, device))) {}
  static ModelOptions options(const lang::Overrides& defines, const std::string& device) {
    ModelOptions o;
    o.device = device;
    o.defines = defines;
    return o;
  }
  void expect_equal(const std::vector<std::vector<EvalValue>>& instances, double tolerance = 2e-5) {
    Batch batch = model.batch();
    for (const auto& arguments : instances) add_instance(arguments, &batch);
    const Outputs outputs = model.run(batch);
    ASSERT_EQ(outputs.size(), instances.size());
    for (size_t i = 0; i < instances.size(); ++i) {
      const EvalValue want = ir::evaluate(program, weights, instances[i]);
      EXPECT_LE(ir::largest_difference(to_eval(outputs[i]), want), tolerance) << "instance " << i;
    }
  }
  ir::Program program;
  std::vector<ir::WeightData> weights;
  Model model;
};

}  // namespace rondo::test
