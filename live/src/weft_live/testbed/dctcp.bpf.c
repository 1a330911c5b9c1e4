// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
//
// DCTCP by RFC 8257, for kernels without tcp_dctcp: a congestion control that the kernel loads as eBPF (struct_ops).
// dctcp.py compiles and registers it. The kernel's structures are declared with the members that are used here alone;
// libbpf finds out where the running kernel has them.
//
// A sender without ECN sees no marks, and is Reno then.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define KERNEL __attribute__((preserve_access_index))

struct sock {};

struct inet_connection_sock {
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
} KERNEL;

struct tcp_sock {
	u32 snd_una, snd_nxt, rcv_nxt, snd_cwnd, lost_out;
	u8 ecn_flags;
} KERNEL;

struct tcp_congestion_ops {
	void (*init)(struct sock *);
	void (*in_ack_event)(struct sock *, u32);
	void (*cwnd_event)(struct sock *, u32);
	u32 (*ssthresh)(struct sock *);
	void (*cong_avoid)(struct sock *, u32, u32);
	u32 (*undo_cwnd)(struct sock *);
	u32 flags;
	char name[16];
};

enum { ACK_TIMER = 2, ACK_NOW = 16 };	// of icsk_ack.pending
enum { NEEDS_ECN = 2 };			// of flags
enum { HAS_ECE = 4 };			// of in_ack_event
enum { CAME_UNMARKED = 4, CAME_MARKED = 5 };	// cwnd_event
enum { ECHO = 4 };			// of ecn_flags: ACKs have ECE

extern void tcp_reno_cong_avoid(struct sock *, u32, u32) SEC(".ksyms");
extern u32 tcp_reno_undo_cwnd(struct sock *) SEC(".ksyms");
static long (*const send_ack)(struct tcp_sock *, u32) = (void *)116;

enum { ONE = 1 << 20 };		// alpha in fixed point
enum { GAIN = 4 };		// g = 1/16, as a shift
enum { LEAST_PACKETS = 2 };

// What a socket remembers. The names are those of the RFC, section 3.
struct dctcp {
	u32 alpha;
	u32 window_end;
	u32 acked, marked;	// bytes of this window
	u32 una;		// up to which they were counted
	u32 echoed;		// the last ACK had ECE
	u32 ce;			// the last packet that came was marked
	u32 came;		// up to here, with that packet
};

static inline struct dctcp *of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

SEC("struct_ops")
int weft_init(u64 *args)
{
	struct sock *sk = (struct sock *)args[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *me = of(sk);

	me->alpha = ONE;	// the first mark halves the window
	me->window_end = tp->snd_nxt;
	me->una = tp->snd_una;
	me->came = tp->rcv_nxt;
	return 0;
}

// Section 3.3: the share of bytes that were marked, once per window.
SEC("struct_ops")
int weft_in_ack_event(u64 *args)
{
	struct sock *sk = (struct sock *)args[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *me = of(sk);
	u32 una = tp->snd_una, bytes = una - me->una;

	me->una = una;
	me->echoed = (args[1] & HAS_ECE) != 0;
	me->acked += bytes;
	if (me->echoed)
		me->marked += bytes;
	if ((int)(una - me->window_end) <= 0)
		return 0;
	if (me->acked) {
		u32 share = (u64)me->marked * ONE / me->acked;

		me->alpha += (share >> GAIN) - (me->alpha >> GAIN);
	}
	me->acked = me->marked = 0;
	me->window_end = tp->snd_nxt;
	return 0;
}

// Sections 3.3 and 3.5: a mark costs half of alpha, a loss half. The kernel asks once per window for either.
SEC("struct_ops")
int weft_ssthresh(u64 *args)
{
	struct sock *sk = (struct sock *)args[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *me = of(sk);
	u32 window = tp->snd_cwnd;
	u32 share = me->echoed && !tp->lost_out ? me->alpha : ONE;
	u32 left = window - (u32)(((u64)window * share + ONE) / (2 * ONE));

	return left > LEAST_PACKETS ? left : LEAST_PACKETS;
}

// Section 3.2: ACKs say of every byte whether it came marked. Where marks begin or end, what came before is acknowledged
// with the echo that it had, and this packet at once.
SEC("struct_ops")
int weft_cwnd_event(u64 *args)
{
	struct sock *sk = (struct sock *)args[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct dctcp *me = of(sk);
	u32 event = args[1], ce = event == CAME_MARKED;

	if (event != CAME_MARKED && event != CAME_UNMARKED)
		return 0;
	if (me->ce != ce) {
		if (icsk->icsk_ack.pending & ACK_TIMER)
			send_ack(tp, me->came);
		icsk->icsk_ack.pending |= ACK_NOW;
	}
	me->ce = ce;
	me->came = tp->rcv_nxt;
	if (ce)
		tp->ecn_flags |= ECHO;
	else
		tp->ecn_flags &= ~ECHO;
	return 0;
}

SEC("struct_ops")
int weft_cong_avoid(u64 *args)
{
	tcp_reno_cong_avoid((struct sock *)args[0], args[1], args[2]);
	return 0;
}

SEC("struct_ops")
int weft_undo_cwnd(u64 *args)
{
	return tcp_reno_undo_cwnd((struct sock *)args[0]);
}

SEC(".struct_ops")
struct tcp_congestion_ops weft_dctcp = {
	.init = (void *)weft_init,
	.in_ack_event = (void *)weft_in_ack_event,
	.cwnd_event = (void *)weft_cwnd_event,
	.ssthresh = (void *)weft_ssthresh,
	.cong_avoid = (void *)weft_cong_avoid,
	.undo_cwnd = (void *)weft_undo_cwnd,
	.flags = NEEDS_ECN,
	.name = "weft_dctcp_NAME",	// four characters of its own for every testbed
};

char licence[] SEC("license") = "Dual MIT/GPL";
