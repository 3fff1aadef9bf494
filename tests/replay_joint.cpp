// Several regions decided together, on machines of numbers where what one region does changes what another
// one costs.
#include <gtest/gtest.h>

#include <functional>

#include "message_of.h"
#include "replay_machine.h"
#include "rondo/replay/joint.h"

namespace rondo::replay {
namespace {

using test::message_of;
using Assignment = std::vector<unsigned>;

// The host and GPU times of a whole step, by assignment.
struct JointMachine {
  std::function<WayTimes(const Assignment&)> times;
  uint64_t seed = 1;
  double noise = 0, outliers = 0;
  std::mt19937_64 random{seed};
  double host = 0, gpu = 0, start = 0;
  uint64_t steps = 0;

  double jitter() {
    return noise == 0 ? 1 : std::max(0.2, 1 + std::normal_distribution<double>(0, noise)(random));
  }
  // What the step took from its begin, when it ends.
  double step(const Assignment& ways, bool begins, bool ends) {
    ++steps;
    if (begins) host = gpu = start = std::max(host, gpu);
    const WayTimes t = times(ways);
    host += t.host_us * jitter();
    gpu = std::max(gpu, host) + t.gpu_us * jitter();
    if (!ends) return 0;
    host = std::max(host, gpu);
    return (host - start) * (std::bernoulli_distribution(outliers)(random) ? 10 : 1);
  }
  void decide(JointSelector* selector) {
    while (!selector->decided()) {
      const JointStep s = selector->next();
      const double us = step(Assignment(s.ways.begin(), s.ways.end()), s.begins, s.ends);
      if (s.ends) selector->finish(us);
    }
  }
  double period_us(const Assignment& a) const { return std::max(times(a).host_us, times(a).gpu_us); }
};

Assignment choice(const JointSelector& selector) {
  return {selector.assignment().begin(), selector.assignment().end()};
}

// Three regions in a row, 20 us each plainly, 5 us as graphs; where a graph follows a plain one or is
// followed by it, the tensors between them are copied: 12 us.
WayTimes fed(const Assignment& a) {
  double us = 0;
  for (size_t r = 0; r < a.size(); ++r) us += a[r] ? 5 : 20;
  for (size_t r = 0; r + 1 < a.size(); ++r) us += a[r] != a[r + 1] ? 12 : 0;
  return {us, 1};
}

TEST(Joint, FindsWhatRegionsAloneCannot) {
  // Alone: the middle one as a graph saves 15 us and costs 24.
  MachineOfNumbers alone({fed({0, 0, 0}), fed({0, 1, 0})});
  Selector middle(2);
  alone.decide(&middle);
  EXPECT_EQ(middle.choice(), 0u);

  JointMachine machine{fed};
  JointSelector selector(3, 2);
  EXPECT_EQ(selector.reason(), "all plain so far, all graph is being timed");
  machine.decide(&selector);
  EXPECT_EQ(choice(selector), (Assignment{1, 1, 1}));
  EXPECT_EQ(
      selector.reason({"a", "b", "c"}),
      "all graph: all graph 0.25 of all plain back to back (15.0 against 60.0 us a step, median of 5 pairs)");
  EXPECT_EQ(machine.steps, 4 * 96u);
}

TEST(Joint, ARegionThatIsSlowerAsAGraphIsLeftPlain) {
  JointMachine machine{[](const Assignment& a) {
    WayTimes t = fed(a);
    if (a[2]) t.host_us += 40;  // of the last one
    return t;
  }};
  JointSelector selector(3, 2);
  machine.decide(&selector);
  EXPECT_EQ(choice(selector), (Assignment{1, 1, 0}));
  EXPECT_EQ(selector.reason({"a", "b", "c"}),
            "a graph, b graph, c plain: all graph 0.92 of all plain back to back (55.0 against 60.0 us a "
            "step, median of 5 pairs); c "
            "plain 0.76 of that back to back (42.0 against 55.0 us a step, median of 5 pairs)");
  EXPECT_EQ(machine.steps, 4 * 96u);  // what was left is not tried again
}

TEST(Joint, WhereAllGraphsAreSlowerSingleOnesMayBeFaster) {
  JointMachine machine{[](const Assignment& a) {
    return WayTimes{60.0 + (a[0] ? 100 : 0) - (a[1] ? 20 : 0), 1};
  }};
  JointSelector selector(2, 2);
  machine.decide(&selector);
  EXPECT_EQ(choice(selector), (Assignment{0, 1}));
}

TEST(Joint, ATieIsAllPlain) {
  JointMachine machine{[](const Assignment&) { return WayTimes{50, 50}; }};
  JointSelector selector(4, 2);
  machine.decide(&selector);
  EXPECT_EQ(choice(selector), (Assignment(4, 0)));
  EXPECT_EQ(selector.reason(),
            "all plain: all graph takes 1.00 of all plain for one step with a wait (100.0 against 100.0 us, "
            "median of 5 pairs), "
            "1.00 back to back (median of 5 pairs), and no single region makes it faster");
}

TEST(Joint, WithThreeWaysEachIsTried) {
  JointMachine machine{[](const Assignment& a) {
    const double us[2][3] = {{30, 20, 10}, {30, 8, 25}};
    return WayTimes{us[0][a[0]] + us[1][a[1]], 1};
  }};
  JointSelector selector(2, 3);
  machine.decide(&selector);
  EXPECT_EQ(choice(selector), (Assignment{2, 1})) << selector.reason();
}

TEST(Joint, OneWayOrOneRegionIsDecidedSimply) {
  const JointSelector one_way(3, 1);
  EXPECT_TRUE(one_way.decided());
  EXPECT_EQ(one_way.reason(), "all plain: there is no other way");
  JointMachine machine{[](const Assignment& a) { return WayTimes{a[0] ? 5.0 : 20.0, 1}; }};
  JointSelector one_region(1, 2);
  machine.decide(&one_region);
  EXPECT_EQ(choice(one_region), Assignment{1});
  EXPECT_EQ(machine.steps, 96u);
  EXPECT_EQ(message_of([] { JointSelector none(0, 2); }, ErrorKind::Internal),
            "0 regions by 2 ways: expected at least one of each");
}

TEST(Joint, AWayThatIsDroppedIsNotChosen) {
  JointMachine machine{fed};
  JointSelector selector(3, 2);
  for (int i = 0; i < 30; ++i) {
    const JointStep s = selector.next();
    const double us = machine.step(Assignment(s.ways.begin(), s.ways.end()), s.begins, s.ends);
    if (s.ends) selector.finish(us);
  }
  selector.drop(1, 1);
  machine.decide(&selector);
  EXPECT_EQ(choice(selector)[1], 0u) << selector.reason();

  JointSelector decided(3, 2);
  machine.decide(&decided);
  ASSERT_EQ(choice(decided), (Assignment{1, 1, 1}));
  decided.drop(2, 1);
  EXPECT_TRUE(decided.decided());
  EXPECT_EQ(choice(decided), (Assignment{1, 1, 0}));
  EXPECT_NE(decided.reason().find("; region 2 graph cannot be done any more"), std::string::npos)
      << decided.reason();
  EXPECT_EQ(message_of([&] { decided.drop(3, 1); }, ErrorKind::Internal),
            "way 1 of region 3 is dropped: expected one of 3 regions by way 1 to 1");
  EXPECT_THROW(decided.drop(0, 0), Error);
}

TEST(Joint, StepsAreBoundedWhateverComesBetween) {
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    std::mt19937_64 random(3);
    JointMachine machine{[](const Assignment& a) { return WayTimes{50 - 0.9 * (a[0] + a[1] + a[2]), 1}; }};
    machine.noise = 0.1;
    JointSelector selector(3, 2);
    while (!selector.decided()) {
      const JointStep s = selector.next();
      const double us = machine.step(Assignment(s.ways.begin(), s.ways.end()), s.begins, s.ends);
      if (s.ends) selector.finish(us);
      if (std::bernoulli_distribution(share)(random)) selector.abandon();
    }
    EXPECT_LE(machine.steps, JointSelector::most_steps(3, 2));
    if (share == 1.0) {
      EXPECT_EQ(choice(selector), (Assignment{0, 0, 0}));
    }
  }
}

// Never slower than all plain or all graph, with noise and interactions of all kinds.
TEST(Joint, OnManyMachinesTheChoiceIsNotWorseThanAllOfOneKind) {
  int best = 0;
  constexpr int kMachines = 200;
  for (uint64_t seed = 1; seed <= kMachines; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](double a, double b) {
      return std::uniform_real_distribution<double>(a, b)(random);
    };
    double plain[3], graph[3], edge[2];
    for (int r = 0; r < 3; ++r) plain[r] = between(10, 50), graph[r] = plain[r] * between(0.3, 1.3);
    for (double& e : edge) e = between(0, 20);
    JointMachine machine{[=](const Assignment& a) {
      double us = 0;
      for (size_t r = 0; r < 3; ++r) us += a[r] ? graph[r] : plain[r];
      for (size_t r = 0; r < 2; ++r) us += a[r] != a[r + 1] ? edge[r] : 0;
      return WayTimes{us, us * 0.3};
    }};
    machine.random.seed(seed);
    machine.noise = 0.02;
    machine.outliers = 0.05;
    JointSelector selector(3, 2);
    machine.decide(&selector);
    EXPECT_LE(machine.steps, JointSelector::most_steps(3, 2));
    const double us = machine.period_us(choice(selector));
    EXPECT_LE(us, machine.period_us({0, 0, 0}) * 1.03) << "seed " << seed << ": " << selector.reason();
    EXPECT_LE(us, machine.period_us({1, 1, 1}) * 1.03) << "seed " << seed << ": " << selector.reason();
    double least = us;
    for (unsigned bits = 0; bits < 8; ++bits)
      least = std::min(least, machine.period_us({bits & 1, bits >> 1 & 1, bits >> 2}));
    best += us <= least * 1.05;
  }
  EXPECT_GE(best, kMachines * 9 / 10);  // a search by single flips: most of the time the best of all eight
}

}  // namespace
}  // namespace rondo::replay
