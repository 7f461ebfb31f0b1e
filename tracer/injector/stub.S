// SPDX-License-Identifier: Apache-2.0
# What the injector puts into a process and has one of its threads run (stub.hpp says why, and what each word is).
#
# It depends on nothing but its own bytes, for it is copied: every address is relative to the instruction. It takes the
# thread back to where it was by itself, so whoever put it there may die at any instant. It lies in memory that the
# process may not write: what it must write down goes into a mapping that it makes. rbx is that mapping from `mapped` on.
#include <sys/syscall.h>

    .section .rodata
    .globl heapyard_stub, heapyard_stub_enter, heapyard_stub_mapped, heapyard_stub_returned
    .globl heapyard_stub_unmapped, heapyard_stub_end
    .balign 16
heapyard_stub:
    .quad 0x314a4e4944525948            # magic
    .quad 0                             # owner
r_15:   .quad 0                         # in the order of user_regs_struct
r_14:   .quad 0
r_13:   .quad 0
r_12:   .quad 0
r_bp:   .quad 0
r_bx:   .quad 0
r_11:   .quad 0
r_10:   .quad 0
r_9:    .quad 0
r_8:    .quad 0
r_ax:   .quad 0
r_cx:   .quad 0
r_dx:   .quad 0
r_si:   .quad 0
r_di:   .quad 0
r_ip:   .quad 0
r_flags: .quad 0
r_sp:   .quad 0
signals: .quad 0                        # the thread's signal mask
bytes:  .quad 0                         # of the mapping

heapyard_stub_enter:
    xorl %edi, %edi
    movq bytes(%rip), %rsi
    movl $3, %edx                       # PROT_READ | PROT_WRITE: never executable
    movl $0x4022, %r10d                 # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    movq $-1, %r8
    xorl %r9d, %r9d
    movl $SYS_mmap, %eax
    syscall
heapyard_stub_mapped:                   # here the injector fills the mapping; `ready` is the last word it writes
    cmpq $-4096, %rax
    ja leave
    movq %rax, %rbx
    cmpq $0, 0(%rbx)                    # ready
    je unmap
    cld
    movq 8(%rbx), %rsp                  # stack_top
    movq 16(%rbx), %r12                 # state_area
    movl 24(%rbx), %eax                 # state_mask; none where the processor has no XSAVE
    movl 28(%rbx), %edx
    movl %eax, %ecx
    orl %edx, %ecx
    jz 1f
    xsave64 (%r12)
    jmp 2f
1:  fxsave64 (%r12)
2:  fninit
    ldmxcsr 112(%rbx)
    call *32(%rbx)                      # __errno_location
    movl (%rax), %eax
    movl %eax, 88(%rbx)                 # saved_errno
    movq 64(%rbx), %rdi                 # library
    movl $2, %esi                       # RTLD_NOW
    call *40(%rbx)                      # dlopen
    movl $2, %r13d                      # kNotLoaded
    testq %rax, %rax
    jz failed
    movq %rax, %rdi
    movq 72(%rbx), %rsi                 # entry_name
    call *48(%rbx)                      # dlsym
    movl $3, %r13d                      # kNoEntry
    testq %rax, %rax
    jz failed
    movq 80(%rbx), %rdi                 # argument
    call *%rax
    movslq %eax, %rax
    movq %rax, 104(%rbx)                # result
    movl $1, %r13d                      # kCalled
    jmp 4f
failed:
    call *56(%rbx)                      # dlerror
    testq %rax, %rax
    jz 4f
    leaq 120(%rbx), %rdi                # text, all zero
    movl $511, %ecx
3:  movb (%rax), %dl
    movb %dl, (%rdi)
    testb %dl, %dl
    jz 4f
    incq %rax
    incq %rdi
    decl %ecx
    jnz 3b
4:  movq %r13, 96(%rbx)                 # outcome
heapyard_stub_returned:                 # where the injector sends a thread whose call does not come back
    cld
    movq 8(%rbx), %rsp
    call *32(%rbx)
    movl 88(%rbx), %ecx
    movl %ecx, (%rax)
    movq 16(%rbx), %r12
    movl 24(%rbx), %eax
    movl 28(%rbx), %edx
    movl %eax, %ecx
    orl %edx, %ecx
    jz 5f
    xrstor64 (%r12)
    jmp unmap
5:  fxrstor64 (%r12)
unmap:
    movq r_sp(%rip), %rsp               # for the handler of a signal, who must not find the mapping's stack gone
    leaq -128(%rsp), %rsp
    movq %rbx, %rdi
    movq bytes(%rip), %rsi
    movl $SYS_munmap, %eax
    syscall
heapyard_stub_unmapped:                 # here the injector takes over again; without it the thread goes on by itself
leave:
    movl $SYS_rt_sigprocmask, %eax
    movl $2, %edi                       # SIG_SETMASK
    leaq signals(%rip), %rsi
    xorl %edx, %edx
    movl $8, %r10d
    syscall
    movq r_sp(%rip), %rsp
    leaq -128(%rsp), %rsp               # beyond the red zone, which is the program's
    pushq r_flags(%rip)
    popfq
    movq r_15(%rip), %r15
    movq r_14(%rip), %r14
    movq r_13(%rip), %r13
    movq r_12(%rip), %r12
    movq r_bp(%rip), %rbp
    movq r_bx(%rip), %rbx
    movq r_11(%rip), %r11
    movq r_10(%rip), %r10
    movq r_9(%rip), %r9
    movq r_8(%rip), %r8
    movq r_ax(%rip), %rax
    movq r_cx(%rip), %rcx
    movq r_dx(%rip), %rdx
    movq r_si(%rip), %rsi
    movq r_di(%rip), %rdi
    movq r_sp(%rip), %rsp
    notrack jmp *r_ip(%rip)             # a jump, not a return: a shadow stack must not notice
    .balign 8
heapyard_stub_end:

    .section .note.GNU-stack, "", @progbits
