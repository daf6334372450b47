# DRAFT, untested: this formula has never been installed. Before it can be used:
# - a release must exist; then set `url` to its source archive and `sha256` to that archive's checksum;
# - the dependencies must be listed as resources (`brew update-python-resources paceline`), or the formula stays in a
#   tap: homebrew-core does not accept formulas that let pip resolve dependencies, as this one does.
class Paceline < Formula
  include Language::Python::Virtualenv

  desc "Multi-user inference server for language and vision-language models on MLX"
  homepage "https://github.com/paceline-server/paceline"
  url "https://github.com/paceline-server/paceline/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on arch: :arm64
  depends_on :macos
  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system "python3.13", "-m", "pip", "--python=#{libexec}/bin/python", "install", buildpath.to_s
    bin.install_symlink libexec/"bin/paceline"
  end

  service do
    run [opt_bin/"paceline", "serve"]
    keep_alive crashed: true
    log_path var/"log/paceline.log"
    error_log_path var/"log/paceline.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/paceline --version")
  end
end
