// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
//
// A sender that keeps its window whatever is lost, and the rate that an agent gives it (SO_MAX_PACING_RATE): that of
// the flow scheduling prototype. dctcp.py compiles and registers it.

typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define KERNEL __attribute__((preserve_access_index))

struct sock {
	unsigned long sk_pacing_rate, sk_max_pacing_rate;
} KERNEL;

struct tcp_sock {
	u32 snd_cwnd, snd_ssthresh;
} KERNEL;

struct tcp_congestion_ops {
	void (*init)(struct sock *);
	u32 (*ssthresh)(struct sock *);
	void (*cwnd_event)(struct sock *, u32);
	void (*cong_control)(struct sock *, void *);
	u32 (*undo_cwnd)(struct sock *);
	char name[16];
};

enum { WINDOW = 512 };	// packets: 30 ms of 200 Mbit/s, so the rate is what limits

static inline void keep(struct sock *sk)
{
	((struct tcp_sock *)sk)->snd_cwnd = WINDOW;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

SEC("struct_ops")
int weft_init(u64 *args)
{
	keep((struct sock *)args[0]);
	return 0;
}

SEC("struct_ops")
int weft_ssthresh(u64 *args)
{
	return WINDOW;
}

SEC("struct_ops")
int weft_cwnd_event(u64 *args)
{
	keep((struct sock *)args[0]);
	return 0;
}

// The kernel asks at every ACK, and reduces nothing by itself.
SEC("struct_ops")
int weft_cong_control(u64 *args)
{
	keep((struct sock *)args[0]);
	return 0;
}

SEC("struct_ops")
int weft_undo_cwnd(u64 *args)
{
	return WINDOW;
}

SEC(".struct_ops")
struct tcp_congestion_ops weft_fixed = {
	.init = (void *)weft_init,
	.ssthresh = (void *)weft_ssthresh,
	.cwnd_event = (void *)weft_cwnd_event,
	.cong_control = (void *)weft_cong_control,
	.undo_cwnd = (void *)weft_undo_cwnd,
	.name = "weft_fixed_NAME",	// four characters of its own for every testbed
};

char licence[] SEC("license") = "Dual MIT/GPL";
