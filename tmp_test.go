package psim_test
import ("testing";"context";"psim")
func BenchmarkTmp(b *testing.B) {
 for b.Loop() {
 c, err := psim.Load("/tmp/G-1t.toml"); if err != nil {b.Fatal(err)}
 p, err := psim.Estimate(context.Background(), c); if err != nil {b.Fatal(err)}
 p.Advise(context.Background())
 }
}
func BenchmarkTmpUnfolded(b *testing.B) {
 for b.Loop() {
 c, err := psim.Load("/tmp/G-1t.toml", "machine.devices_per_node=16"); if err != nil {b.Fatal(err)}
 p, err := psim.Estimate(context.Background(), c); if err != nil {b.Fatal(err)}
 println(p.Plan.Packed.Copies)
 }
}
