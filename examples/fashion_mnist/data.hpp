// The images and labels of Fashion-MNIST.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

inline constexpr int64_t kSide = 28, kPixels = kSide * kSide, kClasses = 10;
inline constexpr std::array<const char*, kClasses> kClassNames = {
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};

struct Images {
  std::vector<float> pixels;  // kPixels an image, 0 to 1
  std::vector<int32_t> labels;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  std::span<const float> image(int64_t i) const { return std::span(pixels).subspan(i * kPixels, kPixels); }
};

// `name` is "train" or "t10k". Throws std::runtime_error that names the file.
Images load_images(const std::string& folder, const std::string& name);

// Batches of a fixed size in a new order each epoch; what does not fill a batch waits for another epoch.
class Batches {
 public:
  Batches(const Images& images, int64_t size, uint64_t seed);
  int64_t per_epoch() const { return images_.count() / size_; }
  void shuffle();
  void get(int64_t batch);  // into `pixels` and `labels`

  std::vector<float> pixels;
  std::vector<int32_t> labels;

 private:
  const Images& images_;
  int64_t size_;
  uint64_t state_;
  std::vector<int32_t> order_;
};
