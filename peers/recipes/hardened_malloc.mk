# SPDX-License-Identifier: Apache-2.0
# hardened_malloc's shared library from SOURCE in the configuration VARIANT, with upstream's compiler and linker options but one:
# it leaves CONFIG_NATIVE out, since the library also runs on the nodes of a fleet and on a simulated machine.

include $(SOURCE)/config/$(VARIANT).mk
vpath %.c $(SOURCE)
vpath %.cc $(SOURCE)

optional = $(shell $(CC) $(1) -E - </dev/null >/dev/null 2>&1 && echo $(1))
settings := $(filter-out CONFIG_WERROR CONFIG_NATIVE CONFIG_CXX_ALLOCATOR CONFIG_UBSAN,$(filter CONFIG_%,$(.VARIABLES)))
prefixed := CONFIG_SEAL_METADATA CONFIG_EXTENDED_SIZE_CLASSES CONFIG_LARGE_SIZE_CLASSES CONFIG_CLASS_REGION_SIZE \
            CONFIG_STATS CONFIG_SELF_INIT CONFIG_LABEL_MEMORY

# Some settings are known to the C code without their prefix.
CPPFLAGS := -D_GNU_SOURCE -I $(SOURCE)/include \
  $(foreach name,$(settings),-D$(if $(filter $(name),$(prefixed)),$(name),$(name:CONFIG_%=%))=$(strip $($(name))))
shared := -pipe -O3 -flto -fPIC -fvisibility=hidden -fno-plt -fstack-clash-protection \
  $(call optional,-fcf-protection) -fstack-protector-strong
# The sources are C23; compilers that know it only in part (GCC before 13) find its keywords in headers.
CFLAGS := $(or $(call optional,-std=c23),-std=c2x) $(shared) -include stdalign.h -include threads.h -include stdbool.h
CXXFLAGS := -std=c++17 -fsized-deallocation $(shared)
LDFLAGS := -Wl,-O1,--as-needed,-z,defs,-z,relro,-z,now,-z,nodlopen,-z,text

objects := chacha.o h_malloc.o memory.o pages.o random.o util.o new.o

libhardened_malloc.so: $(objects)
	$(CC) $(shared) $(LDFLAGS) -shared $^ -lpthread -lstdc++ -o $@
