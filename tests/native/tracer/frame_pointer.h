// SPDX-License-Identifier: Apache-2.0
// A function without a frame pointer, whatever the file is compiled with.
#pragma once

// Clang has no such attribute for one function: there it keeps the frame pointer of its file.
#ifdef __clang__
#define WITHOUT_FRAME_POINTER [[gnu::noinline]]
#else
#define WITHOUT_FRAME_POINTER [[gnu::noinline, gnu::optimize("omit-frame-pointer")]]
#endif
