#include <cblas.h>

#include <memory>

#include "contestant.hpp"

namespace rows {

std::optional<Work> make_openblas(const Row& row, int threads) {
  openblas_set_num_threads(threads);
  const auto i = [](int64_t x) { return static_cast<int>(x); };
  if (row.kind == Kind::Gemm) {
    const int64_t batch = row.dims[0], m = row.dims[1], n = row.dims[2], k = row.dims[3];
    auto a = std::make_shared<std::vector<float>>(operand(row, static_cast<size_t>(batch * m * k), 1));
    auto b = std::make_shared<std::vector<float>>(operand(row, static_cast<size_t>(batch * k * n), 2));
    auto c = std::make_shared<std::vector<float>>(static_cast<size_t>(batch * m * n));
    return Work{[=] {
                  for (int64_t p = 0; p < batch; p++)
                    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, i(m), i(n), i(k), 1, a->data() + p * m * k,
                                i(k), b->data() + p * k * n, i(n), 0, c->data() + p * m * n, i(n));
                },
                [=] { return *c; }};
  }
  if (row.kind == Kind::Gemv) {
    const int64_t n = row.dims[0], k = row.dims[1];
    auto a = std::make_shared<std::vector<float>>(operand(row, static_cast<size_t>(n * k), 1));
    auto x = std::make_shared<std::vector<float>>(operand(row, static_cast<size_t>(k), 2));
    auto y = std::make_shared<std::vector<float>>(static_cast<size_t>(n));
    return Work{[=] {
                  cblas_sgemv(CblasRowMajor, CblasNoTrans, i(n), i(k), 1, a->data(), i(k), x->data(), 1, 0, y->data(),
                              1);
                },
                [=] { return *y; }};
  }
  return {};
}

}  // namespace rows
