package main

import "testing"

func TestMemAvailable(t *testing.T) {
	got, ok := memAvailable([]byte("MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n"))
	if !ok || got != 2048<<10 {
		t.Fatalf("memAvailable = %d, %v; want %d", got, ok, 2048<<10)
	}
	if _, ok := memAvailable([]byte("MemTotal: 1 kB\n")); ok {
		t.Fatal("memAvailable found what is not there")
	}
}

func TestKVBlocks(t *testing.T) {
	const blockBytes = 16 << 10
	for _, c := range []struct {
		name              string
		wanted, available int64
		rows, perSeq      int
		want              int
	}{
		{"a wanted size is taken", 1 << 20, 1 << 40, 128, 64, 64},
		{"auto takes a quarter of what is available", 0, 8 << 20, 128, 64, 128},
		{"auto holds at least one sequence", 0, 1 << 20, 128, 64, 64},
		{"never more than the rows can use", 1 << 30, 1 << 40, 2, 7, 14},
		{"a wanted size below one sequence stays what was asked", 16 << 10, 1 << 40, 128, 64, 1},
	} {
		if got := kvBlocks(blockBytes, c.wanted, c.available, c.rows, c.perSeq); got != c.want {
			t.Errorf("%s: %d blocks, want %d", c.name, got, c.want)
		}
	}
}

func TestIdleFiles(t *testing.T) {
	const stat = "anon 100\ninactive_file 4096\nactive_file 7\n"
	for name, want := range map[string]int64{"inactive_file": 4096, "active_file": 7, "total_inactive_file": 0} {
		if got := idleFiles([]byte(stat), name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
