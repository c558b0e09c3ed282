// Everything public.
#pragma once
#include "uopc/dtype.hpp"
#include "uopc/engine.hpp"
#include "uopc/error.hpp"
#include "uopc/kernel.hpp"
#include "uopc/npy.hpp"
#include "uopc/op.hpp"
#include "uopc/opts.hpp"
#include "uopc/passes.hpp"
#include "uopc/reference.hpp"
#include "uopc/uir.hpp"
#include "uopc/uop.hpp"
#include "uopc/version.hpp"
