// The selector on machines of numbers: what it chooses, why, and what choosing costs.
#include <gtest/gtest.h>

#include "message_of.h"
#include "replay_machine.h"
#include "rondo/replay/selector.h"

namespace rondo::replay {
namespace {

using test::message_of;

SelectorOptions with(Goal goal) {
  SelectorOptions o;
  o.goal = goal;
  return o;
}

// ---------------------------------------------------------------- choosing

TEST(Selector, AClearWinnerTakesFivePairs) {
  MachineOfNumbers machine({{20, 5}, {2, 8}});
  Selector selector(2);
  EXPECT_FALSE(selector.decided());
  EXPECT_EQ(selector.reason(), "plain so far: it is being timed against graph");
  EXPECT_EQ(machine.decide(&selector), 96u);
  EXPECT_EQ(selector.choice(), 1u);
  EXPECT_EQ(selector.reason(),
            "graph: 0.40 of plain back to back (8.00 against 20.0 us a call, median of 5 pairs)");
  EXPECT_EQ(selector.reason({"one by one", "at once"}),
            "at once: 0.40 of one by one back to back (8.00 against 20.0 us a call, median of 5 pairs)");
  const auto all = selector.alternatives({"plain", "graph"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "plain");
  EXPECT_NEAR(all[0].period_us, 20, 1e-9);
  EXPECT_NEAR(all[0].latency_us, 25, 1e-9);
  EXPECT_NEAR(all[1].period_us, 8, 1e-9);
  EXPECT_NEAR(all[1].latency_us, 10, 1e-9);
  EXPECT_EQ(all[1].samples, 5u);
}

TEST(Selector, ASlowerGraphStaysPlainAndSaysByHowMuch) {
  MachineOfNumbers machine({{10, 20}, {2, 30}});
  Selector selector(2);
  machine.decide(&selector);
  EXPECT_EQ(selector.choice(), 0u);
  EXPECT_EQ(selector.reason(),
            "plain: graph takes 1.50 of plain back to back (30.0 against 20.0 us a call, median of 5 pairs)");
}

TEST(Selector, ATieIsPlain) {
  for (const Goal goal : {Goal::both, Goal::period, Goal::latency}) {
    MachineOfNumbers machine({{10, 10}, {9.9, 9.9}});
    Selector selector(2, with(goal));
    machine.decide(&selector);
    EXPECT_EQ(selector.choice(), 0u);
    EXPECT_NE(selector.reason().find("; expected less than 0.98 to leave plain"), std::string::npos)
        << selector.reason();
  }
}

TEST(Selector, OneWayIsDecidedAtOnce) {
  Selector selector(1);
  EXPECT_TRUE(selector.decided());
  EXPECT_EQ(selector.choice(), 0u);
  EXPECT_EQ(selector.reason(), "plain: there is no other way");
  for (int i = 0; i < 100000; ++i) ASSERT_FALSE(selector.count_call());
  EXPECT_EQ(message_of([] { Selector none(0); }, ErrorKind::Internal),
            "a selector of no ways: expected at least one");
}

// The GPU is the bottleneck in a row of calls, the host in a single one.
TEST(Selector, WhereTheRowIsAsFastTheSingleCallDecides) {
  MachineOfNumbers machine({{18, 40}, {2, 40}});
  Selector both(2), period(2, with(Goal::period));
  machine.decide(&both);
  EXPECT_EQ(both.choice(), 1u);
  EXPECT_EQ(
      both.reason(),
      "graph: 0.72 of plain for one call with a wait (42.0 against 58.0 us, median of 5 pairs), 1.00 back to "
      "back (median of 5 pairs)");
  machine.decide(&period);
  EXPECT_EQ(period.choice(), 0u);
}

TEST(Selector, InAConflictThePeriodDecidesUnlessLatencyIsAskedFor) {
  // In a row the graph takes 24 us and plain 20; a single call 26 against 35.
  const std::vector<WayTimes> ways = {{15, 20}, {2, 24}};
  for (const auto& [goal, choice] : {std::pair{Goal::both, 0u}, {Goal::period, 0u}, {Goal::latency, 1u}}) {
    MachineOfNumbers machine(ways);
    Selector selector(2, with(goal));
    machine.decide(&selector);
    EXPECT_EQ(selector.choice(), choice) << selector.reason();
  }
}

// A block of eight calls alone would take 15 + 8 * 20 = 175 against 2 + 8 * 21 = 170 us.
TEST(Selector, FillingAndDrainingTheQueueIsNoPartOfThePeriod) {
  MachineOfNumbers machine({{15, 20}, {2, 21}});
  Selector selector(2);
  machine.decide(&selector);
  EXPECT_EQ(selector.choice(), 0u) << selector.reason();
  EXPECT_NEAR(selector.alternatives()[1].period_us, 21, 1e-9);
}

TEST(Selector, WorkOfTheCallerCountsInTheRow) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  machine.between_us = 100;
  Selector selector(2);
  machine.decide(&selector);
  EXPECT_EQ(selector.choice(), 1u);
  EXPECT_NEAR(selector.alternatives()[0].period_us, 120, 1e-9);
  EXPECT_NEAR(selector.alternatives()[1].period_us, 102, 1e-9);
}

TEST(Selector, OneBlockInTenThatIsTenTimesAsLongChangesNothing) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    MachineOfNumbers machine({{10, 5}, {9, 5}}, seed);
    machine.noise = 0.03;
    machine.outliers = 0.1;
    Selector selector(2);
    EXPECT_LE(machine.decide(&selector), Selector::most_calls(2));
    wrong += selector.choice() != 1;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Selector, DriftOfTheMachineHitsBothWays) {
  // Everything gets slower by 0.1 % a call, which is 5 % over the calls of one pair.
  MachineOfNumbers machine({{10, 5}, {9.95, 5}});
  machine.slower_a_call = 0.001;
  Selector selector(2);
  machine.decide(&selector);
  EXPECT_EQ(selector.choice(), 0u) << selector.reason();
  MachineOfNumbers other({{10, 5}, {9, 5}});
  other.slower_a_call = 0.001;
  Selector second(2);
  other.decide(&second);
  EXPECT_EQ(second.choice(), 1u) << second.reason();
}

// What a person sees: the calls in order. w: not timed; s: single; b: in a block.
TEST(Selector, BlocksComeInTurnsWithOneCallBeforeEachChange) {
  Selector selector(2, [] {
    SelectorOptions o;
    o.block_calls = 3;
    return o;
  }());
  std::string seen;
  bool open = false;
  for (int i = 0; i < 19; ++i) {
    const Step step = selector.next();
    open = open || step.begins;
    seen += step.way == 0 ? 'p' : 'g';
    seen += !open ? 'w' : step.begins && step.ends ? 's' : 'b';
    if (step.ends) selector.finish(step.begins ? 10 : 20), open = false;
  }
  EXPECT_EQ(seen,
            "pwpspbpbpb"
            "gwgsgbgbgb"
            "gsgbgbgb"
            "pwpspbpbpb");
}

// ---------------------------------------------------------------- several ways

TEST(Selector, OfThreeTheBestTwoAreComparedDirectly) {
  MachineOfNumbers machine({{30, 5}, {8, 10}, {4, 8}});
  Selector selector(3);
  machine.decide(&selector);
  EXPECT_EQ(selector.choice(), 2u);
  EXPECT_EQ(selector.reason({"plain", "copies", "patches"}),
            "patches: 0.27 of plain back to back (8.00 against 30.0 us a call, median of 5 pairs); 0.80 of "
            "copies back to "
            "back (8.00 against 10.0 us a call, median of 5 pairs)");
}

TEST(Selector, OfTwoThatBeatPlainAndAreEqualTheFirstIsTaken) {
  MachineOfNumbers machine({{30, 5}, {8, 10}, {8, 9.95}});
  Selector selector(3);
  machine.decide(&selector);
  EXPECT_EQ(selector.choice(), 1u) << selector.reason();
}

TEST(Selector, OneOfThreeThatBeatsPlainNeedsNoFinal) {
  MachineOfNumbers machine({{10, 5}, {20, 5}, {4, 5}});
  Selector selector(3);
  EXPECT_EQ(machine.decide(&selector), 2 * 96u);
  EXPECT_EQ(selector.choice(), 2u);
}

// ---------------------------------------------------------------- what choosing costs

TEST(Selector, CallsThatTakeLongAreFew) {
  MachineOfNumbers seconds({{1e6, 1e6}, {1e6, 1e6}});
  Selector selector(2);
  EXPECT_LE(seconds.decide(&selector), 80u);
  EXPECT_EQ(selector.choice(), 0u);

  MachineOfNumbers noisy({{50e3, 50e3}, {49.1e3, 49.1e3}}, 7);
  noisy.noise = 0.2;
  Selector other(2);
  EXPECT_LE(noisy.decide(&other), 150u);
}

TEST(Selector, WhateverComesBetweenTheNumberOfCallsIsBounded) {
  for (const Goal goal : {Goal::both, Goal::period, Goal::latency}) {
    for (const double share : {0.02, 0.1, 0.3, 0.6, 0.95, 1.0}) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        std::mt19937_64 random(seed);
        MachineOfNumbers machine({{10, 5}, {9.8, 5}, {9.79, 5}}, seed);
        machine.noise = 0.1;
        machine.disturbed = [&] { return std::bernoulli_distribution(share)(random); };
        SelectorOptions options = with(goal);
        options.block_calls = static_cast<unsigned>(2 + seed % 11);
        Selector selector(3, options);
        EXPECT_LE(machine.decide(&selector), Selector::most_calls(3, options)) << share << " seed " << seed;
        EXPECT_TRUE(selector.decided());
      }
    }
  }
}

TEST(Selector, ANumberThatIsNoTimeIsABlockToDoAgain) {
  for (const double us :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Selector selector(2);
    uint64_t calls = 0;
    for (; !selector.decided(); ++calls)
      if (selector.next().ends) selector.finish(us);
    EXPECT_LE(calls, Selector::most_calls(2));
    EXPECT_EQ(selector.reason(),
              "plain: graph could not be timed, because other calls came in between again and again");
  }
}

TEST(Selector, ACallerThatNeverFinishesABlockEndsUpPlain) {
  Selector selector(2);
  uint64_t calls = 0;
  for (; !selector.decided(); ++calls) selector.next();
  EXPECT_LE(calls, Selector::most_calls(2));
  EXPECT_EQ(selector.choice(), 0u);
}

// ---------------------------------------------------------------- abandon, drop, assume

TEST(Selector, AnAbandonedBlockIsDoneAgainFromItsBegin) {
  Selector selector(2);
  EXPECT_FALSE(selector.next().begins);  // not timed
  Step step = selector.next();
  EXPECT_TRUE(step.begins && step.ends);
  selector.finish(10);
  EXPECT_TRUE(selector.next().begins);  // the block
  EXPECT_FALSE(selector.next().begins);
  selector.abandon();
  selector.finish(1);                    // of nothing: not taken
  EXPECT_FALSE(selector.next().begins);  // not timed: who knows what came between
  EXPECT_TRUE(selector.next().begins);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(selector.next().ends);
  EXPECT_TRUE(selector.next().ends);
}

// Other calls come after every second one: no block of two is ever whole.
TEST(Selector, WhereBlocksAreInterruptedSingleCallsDecide) {
  for (const auto& [goal, choice] : {std::pair{Goal::both, 1u}, {Goal::latency, 1u}, {Goal::period, 0u}}) {
    bool odd = false;
    MachineOfNumbers machine({{20, 5}, {2, 5}});
    machine.disturbed = [&] { return odd = !odd; };
    Selector selector(2, with(goal));
    EXPECT_LE(machine.decide(&selector), Selector::most_calls(2, with(goal)));
    EXPECT_EQ(selector.choice(), choice) << selector.reason();
  }
}

TEST(Selector, AWayThatIsDroppedWhileChoosingIsNotChosen) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  Selector selector(2);
  for (int i = 0; i < 40; ++i) machine.call(&selector);
  selector.drop(1);
  EXPECT_TRUE(selector.decided());
  EXPECT_EQ(selector.choice(), 0u);
  EXPECT_EQ(selector.reason(), "plain: graph cannot be done any more");
  for (int i = 0; i < 100000; ++i) ASSERT_FALSE(selector.count_call());

  MachineOfNumbers three({{20, 5}, {2, 5}, {4, 5}});
  Selector other(3);
  for (int i = 0; i < 40; ++i) three.call(&other);
  other.drop(1);
  other.drop(1);
  EXPECT_FALSE(other.decided());
  three.decide(&other);
  EXPECT_EQ(other.choice(), 2u);
  EXPECT_EQ(message_of([&] { other.drop(0); }, ErrorKind::Internal),
            "way 0 of 3 is dropped: expected one from 1 on");
}

TEST(Selector, AChoiceThatIsDroppedGivesWayToTheNextBest) {
  MachineOfNumbers machine({{20, 5}, {4, 5}, {2, 3}});
  Selector selector(3);
  machine.decide(&selector);
  ASSERT_EQ(selector.choice(), 2u);
  selector.drop(2);
  EXPECT_TRUE(selector.decided());
  EXPECT_EQ(selector.choice(), 1u);
  EXPECT_EQ(selector.reason(),
            "graph: 0.25 of plain back to back (5.00 against 20.0 us a call, median of 5 pairs)");
  selector.drop(1);
  EXPECT_EQ(selector.choice(), 0u);
  EXPECT_EQ(selector.reason(), "plain: graph cannot be done any more");
}

TEST(Selector, AnAssumedChoiceIsNotTimedButChecked) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  Selector selector(2);
  selector.assume(0, "plain: as an earlier process found");
  EXPECT_TRUE(selector.decided());
  EXPECT_EQ(selector.reason(), "plain: as an earlier process found");
  EXPECT_EQ(machine.go_on(&selector, 4095), 0u);
  EXPECT_GT(machine.go_on(&selector, 1), 0u);
  EXPECT_EQ(selector.choice(), 1u);
  EXPECT_EQ(selector.reason(),
            "graph: 0.25 of plain back to back (5.00 against 20.0 us a call, median of 5 pairs); changed "
            "once by a check");
  EXPECT_EQ(message_of([&] { selector.assume(2, ""); }, ErrorKind::Internal),
            "way 2 of 2 is assumed: there is none");
}

// ---------------------------------------------------------------- drift

TEST(Selector, ChecksAreShortAndGetRarerWhileTheyConfirm) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  Selector selector(2);
  machine.decide(&selector);
  std::vector<uint64_t> at;
  uint64_t decided = 0;
  while (at.size() < 7) {
    ++decided;
    if (!selector.count_call()) continue;
    at.push_back(decided);
    EXPECT_FALSE(selector.decided());
    EXPECT_EQ(selector.choice(), 1u);           // for those who ask meanwhile
    EXPECT_EQ(machine.decide(&selector), 58u);  // 3 pairs
    EXPECT_TRUE(selector.decided());
  }
  for (size_t i = at.size() - 1; i > 0; --i) at[i] -= at[i - 1];
  EXPECT_EQ(at, (std::vector<uint64_t>{4096, 8192, 16384, 32768, 65536, 65536, 65536}));
  EXPECT_EQ(selector.choice(), 1u);
  EXPECT_NE(selector.reason().find("; confirmed 7 times since"), std::string::npos) << selector.reason();
}

TEST(Selector, AChoiceIsLeftOnlyForWhatIsFasterByMarginAndHysteresis) {
  for (const auto& [gpu_us, left] : {std::pair{98.5, false}, {97.0, false}, {95.0, true}}) {
    MachineOfNumbers machine({{20, 5}, {2, 5}});
    Selector selector(2);
    machine.decide(&selector);
    ASSERT_EQ(selector.choice(), 1u);
    machine.ways = {{0, gpu_us}, {0, 100}};  // plain has become the faster one
    machine.go_on(&selector, 5000);
    EXPECT_EQ(selector.choice(), left ? 0u : 1u) << gpu_us << ": " << selector.reason();
  }
}

TEST(Selector, AChangeBringsTheNextCheckSoon) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  Selector selector(2);
  machine.decide(&selector);
  machine.go_on(&selector, 4096 + 8192);  // confirmed twice: the next one is 16384 away
  machine.ways = {{2, 5}, {20, 5}};
  machine.go_on(&selector, 16383);
  EXPECT_EQ(selector.choice(), 1u);
  machine.go_on(&selector, 1);
  EXPECT_EQ(selector.choice(), 0u);
  machine.ways = {{20, 5}, {2, 5}};
  machine.go_on(&selector, 4096);
  EXPECT_EQ(selector.choice(), 1u);
  EXPECT_NE(selector.reason().find("; changed 2 times by a check"), std::string::npos) << selector.reason();
}

TEST(Selector, EqualWaysDoNotSwing) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    MachineOfNumbers machine({{10, 5}, {9.9, 5}}, seed);
    machine.noise = 0.05;
    machine.outliers = 0.05;
    SelectorOptions options;
    options.drift_calls = 64;
    Selector selector(2, options);
    machine.decide(&selector);
    int changes = 0;
    for (int i = 0; i < 100; ++i) {
      const unsigned before = selector.choice();
      machine.go_on(&selector, 64);
      changes += selector.choice() != before;
    }
    EXPECT_LE(changes, 1) << "seed " << seed;
  }
}

TEST(Selector, WithoutDriftCallsNothingIsChecked) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  SelectorOptions options;
  options.drift_calls = 0;
  Selector selector(2, options);
  machine.decide(&selector);
  EXPECT_EQ(machine.go_on(&selector, 300000), 0u);
}

TEST(Selector, OfThreeWaysTheOthersAreCheckedInTurns) {
  MachineOfNumbers machine({{20, 5}, {2, 5}, {3, 6}});
  Selector selector(3);
  machine.decide(&selector);
  ASSERT_EQ(selector.choice(), 1u);
  machine.ways[2] = {1, 2};
  machine.go_on(&selector, 4096 + 8192);
  EXPECT_EQ(selector.choice(), 2u) << selector.reason();
}

TEST(Selector, AWayThatIsDroppedInACheckEndsIt) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  Selector selector(2);
  machine.decide(&selector);
  while (!selector.count_call()) {
  }
  machine.call(&selector);
  selector.drop(1);
  EXPECT_TRUE(selector.decided());
  EXPECT_EQ(selector.choice(), 0u);
}

TEST(Selector, ACopyGoesItsOwnWay) {
  MachineOfNumbers machine({{20, 5}, {2, 5}});
  Selector selector(2);
  for (int i = 0; i < 50; ++i) machine.call(&selector);
  Selector copy = selector;
  copy.drop(1);
  EXPECT_TRUE(copy.decided());
  machine.decide(&selector);
  EXPECT_EQ(selector.choice(), 1u);
}

// ---------------------------------------------------------------- machines by the thousand

// Never slower than plain, nor than the best way by more than 3 %, where times are noisy and one block in
// twenty is off.
TEST(Selector, OnAThousandMachinesTheChoiceIsGood) {
  uint64_t most = 0, sum = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](double a, double b) {
      return std::uniform_real_distribution<double>(a, b)(random);
    };
    const double host = between(5, 200), gpu = between(5, 200);
    const unsigned ways = seed % 3 == 0 ? 3 : 2;
    std::vector<WayTimes> times = {{host, gpu}};
    for (unsigned w = 1; w < ways; ++w) times.push_back({host * between(0.05, 1.2), gpu * between(0.8, 1.2)});
    MachineOfNumbers machine(times, seed);
    machine.between_us = seed % 2 ? between(0, 50) : 0;
    machine.noise = between(0, 0.03);
    machine.outliers = 0.05;
    SelectorOptions options;
    options.goal = seed % 5 == 0 ? Goal::latency : seed % 5 == 1 ? Goal::period : Goal::both;
    Selector selector(ways, options);
    const uint64_t calls = machine.decide(&selector);
    most = std::max(most, calls), sum += calls;
    EXPECT_LE(calls, Selector::most_calls(ways, options)) << "seed " << seed;
    const unsigned choice = selector.choice();
    const auto time = [&](unsigned w) {
      return options.goal == Goal::latency ? machine.latency_us(w) : machine.period_us(w);
    };
    double best = time(0);
    for (unsigned w = 1; w < ways; ++w) best = std::min(best, time(w));
    EXPECT_LE(time(choice), best * 1.03) << "seed " << seed << ": " << selector.reason();
    // With Goal::both the latency may decide where the period is within the margin.
    EXPECT_LE(time(choice), time(0) * (options.goal == Goal::both ? 1.03 : 1.01))
        << "seed " << seed << ": " << selector.reason();
    // Where the rows are equal, the single call counts.
    if (options.goal == Goal::both && ways == 2 && std::abs(time(1) / time(0) - 1) < 0.005 &&
        machine.latency_us(1) < 0.9 * machine.latency_us(0)) {
      EXPECT_EQ(choice, 1u) << "seed " << seed << ": " << selector.reason();
    }
  }
  std::printf("calls to choose: %.0f on average, %llu at most\n", static_cast<double>(sum) / 1000,
              static_cast<unsigned long long>(most));
}

}  // namespace
}  // namespace rondo::replay
