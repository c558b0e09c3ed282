#include <omp.h>

#include <dnnl.hpp>
#include <memory>

#include "contestant.hpp"

namespace rows {
namespace {

using dnnl::memory;
using Dims = memory::dims;
constexpr auto kF32 = memory::data_type::f32;

struct Machine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  memory make(const Dims& dims, memory::format_tag tag) const { return memory({dims, kF32, tag}, engine); }
  memory make(const memory::desc& desc) const { return memory(desc, engine); }
};

size_t size(const memory& m) {
  size_t n = 1;
  for (int64_t d : m.get_desc().dims()) n *= static_cast<size_t>(d);
  return n;
}

void fill(const Row& row, const memory& m, uint32_t seed) {
  const std::vector<float> v = operand(row, size(m), seed);
  std::copy(v.begin(), v.end(), static_cast<float*>(m.get_data_handle()));
}

std::vector<float> values(const memory& m) {
  const auto* from = static_cast<const float*>(m.get_data_handle());
  return std::vector<float>(from, from + size(m));
}

void reorder(const Machine& on, memory from, memory to) {
  dnnl::stream stream = on.stream;
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
}

Work work(const Machine& on, const dnnl::primitive& primitive, const std::unordered_map<int, memory>& arguments,
          const memory& result) {
  return {[=] {
            dnnl::stream stream = on.stream;  // a handle
            primitive.execute(stream, arguments);
            stream.wait();
          },
          [=] { return values(result); }};
}

// Products with k not transposed, in plain rows.
Work product(const Row& row, const Machine& on) {
  const int64_t batch = row.dims[0], m = row.dims[1], n = row.dims[2], k = row.dims[3];
  const auto plain = memory::format_tag::abc;
  const memory a = on.make({batch, m, k}, plain), b = on.make({batch, k, n}, plain), c = on.make({batch, m, n}, plain);
  fill(row, a, 1);
  fill(row, b, 2);
  dnnl::primitive_attr attributes;
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
  memory::desc bias_desc;
  if (row.kind == Kind::GemmGelu) {
    dnnl::post_ops after;
    after.append_eltwise(1, dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
    attributes.set_post_ops(after);
    const memory bias = on.make({1, 1, n}, plain);
    fill(row, bias, 3);
    arguments[DNNL_ARG_BIAS] = bias;
    bias_desc = bias.get_desc();
  }
  const dnnl::matmul::desc desc = row.kind == Kind::GemmGelu
                                      ? dnnl::matmul::desc(a.get_desc(), b.get_desc(), bias_desc, c.get_desc())
                                      : dnnl::matmul::desc(a.get_desc(), b.get_desc(), c.get_desc());
  return work(on, dnnl::matmul({desc, attributes, on.engine}), arguments, c);
}

// Data in NHWC, where it is fastest; the result is turned back for the comparison.
Work convolution(const Row& row, const Machine& on) {
  const int64_t batch = row.dims[0], channels = row.dims[1], size = row.dims[2], filters = row.dims[3];
  const auto nchw = memory::format_tag::nchw, nhwc = memory::format_tag::nhwc;
  const memory x = on.make({batch, channels, size, size}, nchw),
               w = on.make({filters, channels, 3, 3}, memory::format_tag::oihw);
  const memory inner = on.make({batch, channels, size, size}, nhwc), y = on.make({batch, filters, size, size}, nhwc);
  fill(row, x, 1);
  fill(row, w, 2);
  const dnnl::convolution_forward::primitive_desc desc(
      {dnnl::prop_kind::forward_inference,
       dnnl::algorithm::convolution_direct,
       inner.get_desc(),
       memory::desc({filters, channels, 3, 3}, kF32, memory::format_tag::any),
       y.get_desc(),
       {1, 1},
       {1, 1},
       {1, 1}},
      on.engine);
  const memory weights = on.make(desc.weights_desc());
  reorder(on, x, inner);
  reorder(on, w, weights);
  Work all = work(on, dnnl::convolution_forward(desc),
                  {{DNNL_ARG_SRC, inner}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, y}}, y);
  all.output = [=] {
    const memory turned = on.make({batch, filters, size, size}, nchw);
    reorder(on, y, turned);
    return values(turned);
  };
  return all;
}

}  // namespace

std::optional<Work> make_onednn(const Row& row, int threads) {
  omp_set_num_threads(threads);
  const Machine on;
  if (row.kind == Kind::Gemm || row.kind == Kind::GemmGelu) return product(row, on);
  if (row.kind == Kind::Conv) return convolution(row, on);
  if (row.kind != Kind::Softmax && row.kind != Kind::LayerNorm && row.kind != Kind::Transpose) return {};

  const Dims dims = {row.dims[0], row.dims[1]};
  const bool turned = row.kind == Kind::Transpose;
  const memory x = on.make(dims, memory::format_tag::ab),
               y = on.make(dims, turned ? memory::format_tag::ba : memory::format_tag::ab);
  fill(row, x, 1);
  dnnl::primitive primitive;
  if (turned) {
    primitive = dnnl::reorder(x, y);
  } else if (row.kind == Kind::Softmax) {
    primitive = dnnl::softmax_forward({{dnnl::prop_kind::forward_inference, x.get_desc(), 1}, on.engine});
  } else {
    primitive = dnnl::layer_normalization_forward(
        {{dnnl::prop_kind::forward_inference, x.get_desc(), 1e-5f, dnnl::normalization_flags::none}, on.engine});
  }
  return work(on, primitive, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}, y);
}

}  // namespace rows
