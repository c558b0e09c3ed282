// A decoder of the GPT-2 kind: what comes next after each character.
#pragma once
#include <vector>

#include "uopc/uopc.hpp"

struct GptSize {
  int64_t alphabet = 0, layers = 4, heads = 4, width = 128, context = 128;
  double dropout = 0;
};

struct Block {
  uopc::nn::LayerNorm norm1, norm2;
  uopc::nn::MultiHeadAttention attention;
  uopc::nn::Linear up, down;
  double dropout;

  Block(const uopc::Context& ctx, const GptSize& s)
      : norm1(ctx, {s.width}),
        norm2(ctx, {s.width}),
        attention(ctx, s.width, s.heads, /*causal=*/true, s.dropout),
        up(ctx, s.width, 4 * s.width),
        down(ctx, 4 * s.width, s.width),
        dropout(s.dropout) {}
  uopc::Tensor operator()(const uopc::Tensor& x) const {
    const uopc::Tensor y = x + attention(norm1(x));
    return y + down(up(norm2(y)).gelu()).dropout(dropout);
  }
  template <class V>
  void visit(V&& v) {
    v("norm1", norm1);
    v("attention", attention);
    v("norm2", norm2);
    v("up", up);
    v("down", down);
  }
};

struct Gpt {
  GptSize size;
  uopc::nn::Embedding characters, places;
  std::vector<Block> blocks;
  uopc::nn::LayerNorm norm;
  uopc::nn::Linear head;

  Gpt(const uopc::Context& ctx, const GptSize& s)
      : size(s),
        characters(ctx, s.alphabet, s.width),
        places(ctx, s.context, s.width),
        norm(ctx, {s.width}),
        head(ctx, s.width, s.alphabet, /*with_bias=*/false) {
    // GPT-2's beginning: small embeddings, so that the first guess is an even one.
    characters.weight.assign(characters.weight * 0.02).realize();
    places.weight.assign(places.weight * 0.02).realize();
    for (int64_t i = 0; i < s.layers; i++) blocks.emplace_back(ctx, s);
  }
  // Tokens (B, T) to scores (B, T, alphabet); T is at most the context.
  uopc::Tensor operator()(const uopc::Tensor& tokens) const {
    uopc::Tensor x = characters(tokens) + places.weight.narrow(0, 0, tokens.size(1));
    for (const Block& block : blocks) x = block(x);
    return head(norm(x));
  }
  template <class V>
  void visit(V&& v) {
    v("characters", characters);
    v("places", places);
    v("blocks", blocks);
    v("norm", norm);
    v("head", head);
  }
};
