// An image and what a net thinks of it, in characters.
#pragma once
#include <cstdint>
#include <span>

// `image`: 28 x 28 pixels of 0 to 1; `probabilities`: one a class.
void draw_prediction(std::span<const float> image, std::span<const float> probabilities, int32_t label);
