// csi-sanity runs the sanity tests of kubernetes-csi/csi-test against a driver.
//
//	csi-sanity -endpoint unix:///run/csi.sock -dir /tmp/new [-ginkgo.skip REGEX ...]
//
// It exits with 0 when every spec passes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"k8s.io/klog/v2"
)

type result struct{ code int }

func (r *result) Fail() { r.code = 1 }

func main() {
	config := sanity.NewTestConfig()
	flag.StringVar(&config.Address, "endpoint", "", "the driver's endpoint")
	dir := flag.String("dir", "", "an empty directory for target and staging paths")
	flag.Int64Var(&config.TestVolumeSize, "volume-size", 1<<20, "size of the volumes, in bytes")
	flag.Int64Var(&config.TestVolumeExpandSize, "volume-expand-size", 2<<20, "size to which they are expanded")
	flag.BoolVar(&config.TestNodeVolumeAttachLimit, "attach-limit", false, "exceed the node's volume limit")
	flag.Parse()
	if config.Address == "" || *dir == "" {
		fmt.Fprintln(os.Stderr, "csi-sanity: -endpoint and -dir are needed")
		os.Exit(2)
	}
	config.TargetPath = filepath.Join(*dir, "mount")
	config.StagingPath = filepath.Join(*dir, "staging")
	klog.SetOutput(ginkgo.GinkgoWriter)
	var r result
	sanity.Test(&r, config)
	os.Exit(r.code)
}
