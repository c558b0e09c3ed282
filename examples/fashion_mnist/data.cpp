#include "data.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "common/idx_gz.hpp"

Images load_images(const std::string& folder, const std::string& name) {
  const IdxArray pixels = read_idx_gz(folder + "/" + name + "-images-idx3-ubyte.gz");
  const IdxArray labels = read_idx_gz(folder + "/" + name + "-labels-idx1-ubyte.gz");
  if (pixels.shape.size() != 3 || pixels.shape[1] != kSide || pixels.shape[2] != kSide ||
      labels.shape != std::vector<int64_t>{pixels.shape[0]})
    throw std::runtime_error(folder + ": " + name + " is not a set of 28 x 28 images with a label each");
  Images out;
  out.pixels.resize(pixels.data.size());
  std::transform(pixels.data.begin(), pixels.data.end(), out.pixels.begin(), [](uint8_t v) { return v / 255.0f; });
  out.labels.assign(labels.data.begin(), labels.data.end());
  for (int32_t label : out.labels)
    if (label >= kClasses) throw std::runtime_error(folder + ": " + name + " has a label " + std::to_string(label));
  return out;
}

Batches::Batches(const Images& images, int64_t size, uint64_t seed)
    : pixels(size * kPixels), labels(size), images_(images), size_(size), state_(seed), order_(images.count()) {
  if (size > images.count())
    throw std::runtime_error("a batch of " + std::to_string(size) + " out of " + std::to_string(images.count()) +
                             " images");
  std::iota(order_.begin(), order_.end(), 0);
}

// Fisher and Yates's, with splitmix64: the same order on every machine.
void Batches::shuffle() {
  const auto next = [this] {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  };
  for (size_t i = order_.size(); i > 1; i--) std::swap(order_[i - 1], order_[next() % i]);
}

void Batches::get(int64_t batch) {
  for (int64_t k = 0; k < size_; k++) {
    const int32_t i = order_[batch * size_ + k];
    std::ranges::copy(images_.image(i), pixels.begin() + k * kPixels);
    labels[k] = images_.labels[i];
  }
}
