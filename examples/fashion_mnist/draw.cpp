#include "draw.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/progress.hpp"
#include "data.hpp"

namespace {

constexpr int64_t kGuesses = 3, kBarWidth = 20;

// Two rows of pixels in one line: on a terminal half blocks in 24 grays, elsewhere one character for their mean.
std::string picture_line(std::span<const float> image, int64_t row, bool colors) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  std::string line;
  for (int64_t x = 0; x < kSide; x++) {
    const float upper = image[row * kSide + x], lower = image[(row + 1) * kSide + x];
    const auto gray = [](float v) { return 232 + static_cast<int>(v * 23.0f + 0.5f); };
    if (colors)
      line += fmt::format("\x1b[38;5;{}m\x1b[48;5;{}m\u2580", gray(upper), gray(lower));
    else
      line += kShades[static_cast<size_t>((upper + lower) / 2 * 9.0f + 0.5f)];
  }
  return colors ? line + "\x1b[0m" : line;
}

}  // namespace

void draw_prediction(std::span<const float> image, std::span<const float> probabilities, int32_t label) {
  std::vector<int64_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return probabilities[a] > probabilities[b]; });
  const bool colors = on_terminal();
  for (int64_t row = 0; row < kSide; row += 2) {
    std::string words;
    if (row == 0) words = fmt::format("{}, taken for {}", kClassNames[label], kClassNames[order[0]]);
    if (const int64_t rank = row / 2 - 2; rank >= 0 && rank < kGuesses) {
      const float p = probabilities[order[rank]];
      words = fmt::format("{:<10} {:5.1f} % {:#<{}}", kClassNames[order[rank]], p * 100, "",
                          static_cast<int64_t>(p * kBarWidth + 0.5f));
    }
    fmt::print("  {}  {}\n", picture_line(image, row, colors), words);
  }
  fmt::print("\n");
}
