// csi-driver-dir is a CSI v1 driver in Go: grpc-go, the specification's own Go bindings and the server frame of
// kubernetes-csi/csi-test. Its volumes are directories below -state, so they survive a kill.
//
//	CSI_ENDPOINT=unix:///run/csi.sock csi-driver-dir -state DIR [-node ID]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/driver"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const name = "dir.csi.example.com"

var id = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

type server struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	state, node string
}

func main() {
	state := flag.String("state", "", "directory of the volumes")
	node := flag.String("node", "", "this node's id (MESOS_AGENT_ID, else the host's name)")
	flag.Parse()
	if err := run(*state, *node); err != nil {
		fmt.Fprintln(os.Stderr, "csi-driver-dir:", err)
		os.Exit(1)
	}
}

func run(state, node string) error {
	if state == "" {
		return fmt.Errorf("-state is needed")
	}
	if node == "" {
		node = os.Getenv("MESOS_AGENT_ID")
	}
	if node == "" {
		node, _ = os.Hostname()
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	path := strings.TrimPrefix(strings.TrimPrefix(os.Getenv("CSI_ENDPOINT"), "unix://"), "unix:")
	if path == "" {
		return fmt.Errorf("CSI_ENDPOINT is not set")
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	s := &server{state: state, node: node}
	d := driver.NewCSIDriver(&driver.CSIDriverServers{Identity: s, Controller: s, Node: s})
	if err := d.Start(listener); err != nil {
		return err
	}
	log.Printf("listening on %s", path)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	<-end
	d.Stop()
	return nil
}

func (s *server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1.0.0"}, nil
}

func (s *server) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	capability := &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{capability}}, nil
}

func (s *server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (s *server) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	rpc := &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}
	capability := &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{capability}}, nil
}

// volume is the directory of a volume id, which never leads out of the state directory.
func (s *server) volume(volume string) (string, error) {
	if volume == "" {
		return "", status.Error(codes.InvalidArgument, "volume id missing")
	}
	if !id.MatchString(volume) || strings.Contains(volume, "..") {
		return "", status.Errorf(codes.NotFound, "no volume %q", volume)
	}
	return filepath.Join(s.state, volume), nil
}

func (s *server) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.Name == "" || len(r.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "name or volume capabilities missing")
	}
	path, err := s.volume(r.Name)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "name %q", r.Name)
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	volume := &csi.Volume{VolumeId: r.Name, CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (s *server) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "volume id missing")
	}
	if path, err := s.volume(r.VolumeId); err == nil {
		if err := os.RemoveAll(path); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *server) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	path, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if len(r.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume capabilities missing")
	}
	if _, err := os.Stat(path); err != nil {
		return nil, status.Errorf(codes.NotFound, "no volume %q", r.VolumeId)
	}
	confirmed := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}

func (s *server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.node}, nil
}

func (s *server) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume binds the volume's directory, or links to it where the process may not mount.
func (s *server) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	path, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if r.TargetPath == "" || r.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "target path or volume capability missing")
	}
	if _, err := os.Stat(path); err != nil {
		return nil, status.Errorf(codes.NotFound, "no volume %q", r.VolumeId)
	}
	if _, err := os.Stat(filepath.Join(r.TargetPath, ".")); err == nil && published(path, r.TargetPath) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	_ = os.Remove(r.TargetPath)
	if err := os.Mkdir(r.TargetPath, 0o755); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if syscall.Mount(path, r.TargetPath, "", syscall.MS_BIND, "") != nil {
		_ = os.Remove(r.TargetPath)
		if err := os.Symlink(path, r.TargetPath); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// published tells whether both paths lead to the same directory.
func published(volume, target string) bool {
	a, errA := os.Stat(volume)
	b, errB := os.Stat(target)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func (s *server) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if r.VolumeId == "" || r.TargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "volume id or target path missing")
	}
	path, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, status.Errorf(codes.NotFound, "no volume %q", r.VolumeId)
	}
	_ = syscall.Unmount(r.TargetPath, 0)
	if err := os.Remove(r.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
