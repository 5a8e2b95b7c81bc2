"""Compiles the kernels that are named, each X.cu to X.ptx, with NVRTC, or with --check compares: `make cuda-kernels`.

NVRTC comes as a package, which is downloaded into a temporary folder, or from the folder that TGI_NVRTC names.
"""
import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

# PTX of a newer NVRTC may be refused by the oldest driver that CUDA 13 runs on.
PACKAGE = "nvidia-cuda-nvrtc==13.0.88"
OPTIONS = ["--gpu-architecture=compute_80", "--fmad=false", "--prec-div=true", "--ftz=false", "--std=c++17"]
PRELUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device.h")


def unpack(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", folder, PACKAGE], check=True)
    wheel = next(f for f in os.listdir(folder) if f.endswith(".whl"))
    with zipfile.ZipFile(os.path.join(folder, wheel)) as z:
        for name in z.namelist():
            if ".so" in name:
                with open(os.path.join(folder, os.path.basename(name)), "wb") as f:
                    f.write(z.read(name))


def load(folder):
    names = sorted(f for f in os.listdir(folder) if ".so" in f and "alt" not in f)
    for n in names:
        if "builtins" in n:
            ctypes.CDLL(os.path.join(folder, n), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(os.path.join(folder, next(n for n in names if n.startswith("libnvrtc.so"))))


def compile_source(nvrtc, source):
    program = ctypes.c_void_p()

    def call(name, *args):
        code = getattr(nvrtc, name)(*args)
        if code:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            sys.exit(f"{name} failed with {code}: {log.value.decode()}")

    call("nvrtcCreateProgram", ctypes.byref(program), source, b"kernel.cu", 0, None, None)
    call("nvrtcCompileProgram", program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*[o.encode() for o in OPTIONS]))
    size = ctypes.c_size_t()
    call("nvrtcGetPTXSize", program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    call("nvrtcGetPTX", program, ptx)
    return ptx.value.decode()


def compile_all(nvrtc, paths, check):
    with open(PRELUDE, "rb") as f:
        prelude = f.read()
    for path in paths:
        with open(path, "rb") as f:
            source = prelude + f.read()
        lines = [f"// {os.path.basename(path)} {hashlib.sha256(source).hexdigest()}", f"// {PACKAGE} {' '.join(OPTIONS)}"]
        lines += [line.rstrip() for line in compile_source(nvrtc, source).split("\n")]
        text = "\n".join(lines).rstrip() + "\n"
        to = os.path.splitext(path)[0] + ".ptx"
        if not check:
            with open(to, "w") as f:
                f.write(text)
            continue
        with open(to) as f:
            if f.read() != text:
                sys.exit(f"{to} is not what {path} compiles to: run make cuda-kernels")


def main():
    paths = [a for a in sys.argv[1:] if a != "--check"]
    with tempfile.TemporaryDirectory() as folder:
        given = os.environ.get("TGI_NVRTC")
        if not given:
            unpack(folder)
        compile_all(load(given or folder), paths, "--check" in sys.argv)


main()
