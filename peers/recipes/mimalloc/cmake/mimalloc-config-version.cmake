# SPDX-License-Identifier: Apache-2.0
# The crate leaves mimalloc's own cmake folder out; this file and JoinPaths.cmake stand in for what CMakeLists.txt includes.
# The version comes from mimalloc.h, as major and two digits each for minor and patch.
file(STRINGS "${CMAKE_SOURCE_DIR}/include/mimalloc.h" line REGEX "#define MI_MALLOC_VERSION")
string(REGEX MATCH "([0-9]+)([0-9][0-9])([0-9][0-9])" version "${line}")
set(mi_version_major ${CMAKE_MATCH_1})
math(EXPR mi_version_minor "1${CMAKE_MATCH_2} - 100")
math(EXPR mi_version_patch "1${CMAKE_MATCH_3} - 100")
set(mi_version ${mi_version_major}.${mi_version_minor})
