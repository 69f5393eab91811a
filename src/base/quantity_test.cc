#include "base/quantity.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace osb {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Quantity, ReadsKubernetesQuantitiesExactlyAndRoundsUp) {
  struct {
    const char* text;
    std::uint64_t want;
  } rows[] = {
      {"0", 0},
      {"-0", 0},
      {"1", 1},
      {"+1", 1},
      {"1.", 1},
      {".5", 1},
      {"0.000000001", 1},
      {"1.0000", 1},
      {"128974848", 128974848},
      {"129e6", 129000000},
      {"129E6", 129000000},
      {"1.29e+8", 129000000},
      {"5e-1", 1},
      {"129M", 129000000},
      {"123Mi", 128974848},
      {"1k", 1000},
      {"1Ki", 1024},
      {"1.5Gi", 1610612736},
      {"0.1Ki", 103},
      {"2Ti", 2199023255552},
      {"1Pi", 1125899906842624},
      {"1E", 1000000000000000000},
      {"1Ei", 1152921504606846976},
      {"15.9999Ei", 18446628781559090932u},
      {"1000m", 1},
      {"1001m", 2},
      {"1n", 1},
      {"1u", 1},
      {"0e1000000000", 0},
      {"1e-1000000000", 1},
      {"0.00000000000000000000000000000000000000001Ei", 1},
      {"000000000000000000000000000000000000000001", 1},
      {"18446744073709551615", kMax},
      {"18446744073709551614.1", kMax},
  };
  for (const auto& row : rows) {
    const auto got = parse_quantity("memory", row.text);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, row.want) << row.text;
  }
}

TEST(Quantity, CpuIsInMillis) {
  struct {
    const char* text;
    std::uint64_t want;
  } rows[] = {{"1", 1000}, {"500m", 500}, {"0.5", 500},    {"1.5", 1500},    {"100m", 100},
              {"1n", 1},   {"0.0001", 1}, {"2k", 2000000}, {"1e3", 1000000}, {"0.0015", 2}};
  for (const auto& row : rows) {
    const auto got = parse_quantity_millis("cpu", row.text);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, row.want) << row.text;
  }
}

TEST(Quantity, RefusesWhatKubernetesRefuses) {
  for (const char* text : {"",     " ",   "-",   "+",   ".",   "Mi",  "1 Mi",  " 1",    "1 ",      "1mi",  "1KI",
                           "1ki",  "1K",  "1g",  "1GB", "1e",  "1e+", "1e1.5", "1e1Ki", "1Kii",    "1..2", "1.2.3",
                           "0x10", "--1", "+-1", "1Ee", "1,5", "NaN", "inf",   "1\n",   "\xD9\xA1"}) {
    EXPECT_FALSE(parse_quantity("memory", text)) << text;
  }
  EXPECT_FALSE(parse_quantity("memory", std::string(300, '1')));
}

TEST(Quantity, RefusesNegativeAmountsAndOverflow) {
  for (const char* text : {"-1", "-1m", "-0.000001Ki", "18446744073709551616", "18446744073709551615.1", "16Ei", "19E",
                           "20000P", "1e20", "1e1000000000", "99999999999999999999999999"}) {
    EXPECT_FALSE(parse_quantity("memory", text)) << text;
  }
  EXPECT_FALSE(parse_quantity_millis("cpu", "18446744073709552"));
  EXPECT_TRUE(parse_quantity_millis("cpu", "18446744073709551"));
}

TEST(Quantity, ErrorsNameTheFieldAndTheString) {
  EXPECT_EQ(parse_quantity("resourceLimits.memory", "12 parsecs").error().message,
            "resourceLimits.memory: \"12 parsecs\" is not a quantity such as 500m, 1.5 or 2Gi");
  EXPECT_EQ(parse_docker_memory("1.5Gi").error().message,
            "memory: \"1.5Gi\" is not an amount of memory such as 512Mi, 2g or 1073741824");
  EXPECT_EQ(parse_docker_cpu("0").error().message, "cpu: \"0\" must be above zero");
  EXPECT_EQ(parse_docker_gpu("0").error().message, "gpu: \"0\" must be at least 1");
}

TEST(Quantity, DockerMemoryFollowsItsTable) {
  struct {
    const char* text;
    std::uint64_t want;
  } rows[] = {
      {"0", 0},
      {"123", 123},
      {"1b", 1},
      {"1B", 1},
      {"2k", 2000},
      {"2kb", 2000},
      {"2Ki", 2048},
      {"2KI", 2048},
      {"3m", 3000000},
      {"3MB", 3000000},
      {"512Mi", 536870912},
      {"1g", 1000000000},
      {"1gb", 1000000000},
      {"1Gi", 1073741824},
      {"1t", 1000000000000},
      {"1tb", 1000000000000},
      {"1ti", 1099511627776},
      {" \t512Mi\n", 536870912},
      {"00000000000000000000000001", 1},
      {"9223372036854775807", 9223372036854775807},
  };
  for (const auto& row : rows) {
    const auto got = parse_docker_memory(row.text);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, row.want) << row.text;
  }
}

TEST(Quantity, DockerMemoryRefusesTheRest) {
  for (const char* text : {"", " ", "512MiB", "1.5Gi", "-1", "+1", "Mi", "1 Mi", "1bi", "1i", "1p", "1e3", "1kk", "1bb",
                           "9223372036854775808", "9223372036854775807k", "8388608ti", "99999999999999999999999999"}) {
    EXPECT_FALSE(parse_docker_memory(text)) << text;
  }
  EXPECT_TRUE(parse_docker_memory("8388607ti"));
}

TEST(Quantity, DockerCpuIsInNanosAndCutOff) {
  struct {
    const char* text;
    std::int64_t want;
  } rows[] = {{"1", 1000000000},  {"0.5", 500000000},  {"500m", 500000000},
              {".25", 250000000}, {"2.", 2000000000},  {"1.9999999999", 1999999999},
              {"0.5m", 500000},   {" 1 ", 1000000000}, {"9223372036", 9223372036000000000}};
  for (const auto& row : rows) {
    const auto got = parse_docker_cpu(row.text);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, row.want) << row.text;
  }
  for (const char* text : {"", "m", ".", "-1", "+1", "0", "0m", "0.0000000001", "1M", "1 m", "1e3", "nan", "inf", "1k",
                           "9223372037", "99999999999999999999999", "1mm"}) {
    EXPECT_FALSE(parse_docker_cpu(text)) << text;
  }
}

TEST(Quantity, DockerGpuIsACountOrAll) {
  EXPECT_EQ(parse_docker_gpu("1"), 1);
  EXPECT_EQ(parse_docker_gpu("2147483647"), 2147483647);
  EXPECT_EQ(parse_docker_gpu("all"), -1);
  EXPECT_EQ(parse_docker_gpu("ALL"), -1);
  for (const char* text : {"", "0", "-1", "1.5", "two", "alles", "2147483648", "99999999999999999999"}) {
    EXPECT_FALSE(parse_docker_gpu(text)) << text;
  }
}

}  // namespace
}  // namespace osb
